#!/usr/bin/python3
"""Makes the man pages, out of what exists anyway, so that they can't drift from it.

usage: make_man.py FOLDER VERSION LOQUET LOQUETD HEADER...

LOQUET and LOQUETD are the programs: their --help, which they print from their tables of commands and options, becomes
loquet(1) and loquetd(8). The comments of the public HEADERs become section 3: an overview for each header, and a page
for each function or group of functions under one comment. Pages are written below FOLDER as man1/loquet.1 and so on.
"""

import pathlib
import re
import subprocess
import sys

OPTION = re.compile(r"  (--[\w-]+)(?: (\S*) +(\S.*)| (\S+)|)$")  # its text may be on the next line
ROW = re.compile(r"  (\S.*?)  +(\S.*)$")
TITLE = re.compile(r"\S.*:$")
SECTIONS = {"Exit codes": "EXIT STATUS", "Configuration files": "FILES"}

# What a header has, in its order: comments, types, other declarations.
PART = re.compile(
    r"^(?P<comment>/\*.*?\*/)|^(?P<type>(?:struct|enum) \w+ \{.*?^\};)|^(?P<decl>[a-z][^#{}]*?;)|^(?P<gap>\n)",
    re.M | re.S,
)
FUNCTION = re.compile(r"\b(loquet_\w+)\(")


# ---- roff


def escape(text):
    """Text of one line. Options get dashes that can be copied."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(?<![\w-])--?[a-z][\w-]*", lambda match: match.group().replace("-", "\\-"), text)
    return "\\&" + text if text[:1] in (".", "'") else text


def bold(text):
    return "\\fB%s\\fR" % escape(text)


def item(term, text):
    return [".TP", term, escape(text)]


def code(lines):
    return [".PP", ".in +4", ".nf", *(escape(line) for line in lines), ".fi", ".in"]


def paragraphs(text):
    """Plain text: paragraphs, and code where it is indented by four."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.split("\n")
        while lines:
            is_code = lines[0].startswith("    ")
            end = next((i for i, line in enumerate(lines) if line.startswith("    ") != is_code), len(lines))
            block, lines = lines[:end], lines[end:]
            out += code([line[4:] for line in block]) if is_code else [".PP", *(escape(line.strip()) for line in block)]
    return out


class Page:
    def __init__(self, name, section, version):
        self.name, self.section = name, section
        self.lines = [
            '.\\" Made from the program or header itself: see client/man/make_man.py.',
            '.TH %s %s "" "Loquet %s" "Loquet"' % (name, section, version),
        ]

    def add(self, title, lines):
        # A paragraph right behind a title is one anyway.
        self.lines += [".SH " + title, *(lines[1:] if lines[:1] == [".PP"] else lines)]

    def write(self, folder, *aliases):
        """Writes it, and for each alias (name, section) a page that is the same."""
        self.put(folder, self.name, self.section, "\n".join(self.lines) + "\n")
        for name, section in aliases:
            self.put(folder, name, section, ".so man%s/%s.%s\n" % (self.section, self.name, self.section))

    @staticmethod
    def put(folder, name, section, text):
        path = folder / ("man" + section) / ("%s.%s" % (name, section))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


# ---- Programs


def help_of(*words):
    return subprocess.run([*words, "--help"], check=True, capture_output=True, text=True).stdout


def sections_of(text):
    """[(title, lines)] of a help text; the first one has no title."""
    sections = [("", [])]
    for line in text.split("\n"):
        if TITLE.match(line):
            sections.append((line[:-1], []))
        elif not line.startswith("usage: "):
            sections[-1][1].append(line)
    return sections


def rows(lines):
    """Rows of a help text: options, other terms with their texts, and lines that are neither."""
    out, plain = [], []

    def flush():
        out.extend(paragraphs("\n".join(plain)) if "".join(plain).strip() else [])
        plain.clear()

    for line in lines:
        option, row = OPTION.match(line), ROW.match(line)
        if option:
            flush()
            value = option.group(2) or option.group(4)
            out.extend([".TP", bold(option.group(1)) + (" \\fI%s\\fR" % escape(value) if value else "")])
            out.extend([escape(option.group(3))] if option.group(3) else [])
        elif row:
            flush()
            out.extend(item(bold(row.group(1)), row.group(2)))
        elif line.startswith("        ") and out:
            out.append(escape(line.strip()))
        else:
            plain.append(line.strip())
    flush()
    return out


def command_lines(loquet, name):
    """A command's part of the page: how it is called, what it does, which options it takes."""
    text = help_of(loquet, name)
    usage = re.match(r"usage: (.*)", text).group(1)
    options = re.findall(r"^  (--[\w-]+)", text, re.M)
    out = [".SS " + name, bold(usage)]
    for title, lines in sections_of(text):
        if title != "Options":
            out += [".PP", escape(title + ":")] if title else []
            out += rows(lines)
    return [*out, ".PP", "Options: " + ", ".join(map(escape, options)) + "."]


def make_loquet(folder, version, loquet):
    page, text = Page("loquet", "1", version), help_of(loquet)
    sections = dict(sections_of(text))
    intro = "\n".join(sections.pop("")).strip()
    commands = [ROW.match(line).group(1) for line in sections.pop("Commands") if ROW.match(line)]
    page.add("NAME", ["loquet \\- " + escape(intro.rstrip("."))])
    page.add("SYNOPSIS", [bold(re.match(r"usage: (.*)", text).group(1))])
    page.add("COMMANDS", [line for name in commands for line in command_lines(loquet, name)])
    for title, lines in sections.items():
        page.add(SECTIONS.get(title, title.upper()), rows(lines))
    page.add("ENVIRONMENT", variables(text))
    page.add("SEE ALSO", ["loquetd(8), loquet(3)"])
    page.write(folder, ("loquet.conf", "5"))


def variables(text):
    return [".PP", ", ".join(sorted(set(re.findall(r"\bLOQUET_[A-Z]+\b", text)))) + ": see above."]


def make_loquetd(folder, version, loquetd):
    page, text = Page("loquetd", "8", version), help_of(loquetd)
    sections = sections_of(text)
    name, _, intro = "\n".join(sections.pop(0)[1]).strip().partition("\n")
    page.add("NAME", ["loquetd \\- " + escape(name.partition(", ")[2])])
    page.add("SYNOPSIS", [bold(re.search(r"usage: (.*)", text).group(1))])
    page.add("DESCRIPTION", paragraphs(intro))
    last, _, rest = "\n".join(sections[-1][1]).partition("\n\n")
    sections[-1] = (sections[-1][0], last.split("\n"))
    page.add("OPTIONS", [line for title, lines in sections for line in (".SS " + escape(title), *rows(lines))])
    page.add("NOTES", paragraphs(rest))
    page.add("SEE ALSO", ["loquet(1)"])
    page.write(folder, ("loquetd.conf", "5"))


# ---- Headers


def comment_text(comment):
    lines = [re.sub(r"^ ?\* ?", "", line) for line in comment[2:-2].split("\n")]
    return "\n".join([lines[0].strip(), *lines[1:]]).strip()


def groups_of(header):
    """[(comment, [declarations])] of the functions of a header, [types], and its first comment."""
    overview, comment, groups, types, is_open = None, "", [], [], False
    for part in PART.finditer(header):
        if part["comment"]:
            overview = overview or comment_text(part["comment"])
            comment, is_open = comment_text(part["comment"]), False
        elif part["gap"]:
            is_open, comment = False, ""
        elif part["type"]:
            types.append(part["type"])
        elif not part["decl"].startswith("typedef") and FUNCTION.search(part["decl"]):
            if not is_open:
                groups.append((comment, []))
            groups[-1][1].append(part["decl"])
            is_open = True
        elif not part["decl"].startswith("extern"):
            types.append(part["decl"])
    return overview, groups, types


def name_of(declaration):
    return FUNCTION.search(declaration).group(1)


def make_function(folder, version, include, comment, declarations):
    names = [name_of(declaration) for declaration in declarations]
    page = Page(names[0], "3", version)
    if not comment:
        comment = "Does on a loop what %s does." % names[0].replace("_uv", "")
    brief = re.split(r"[.:;](?:\s|$)", comment.replace("\n", " "))[0]
    page.add("NAME", [", ".join(names) + " \\- " + escape(brief)])
    page.add("SYNOPSIS", code(["#include <%s.h>" % include, "", *"\n".join(declarations).split("\n")]))
    page.add("DESCRIPTION", paragraphs(comment))
    page.add("SEE ALSO", ["%s(3)" % include])
    page.write(folder, *((name, "3") for name in names[1:]))
    return names


def make_header(folder, version, path):
    header, include = path.read_text(encoding="utf-8"), path.stem
    overview, groups, types = groups_of(header)
    first, _, text = overview.partition("\n")
    brief, _, more = (first + "\n" + text).partition(" - ")[2].partition(":" if ":" in first else "\n\n    ")
    page = Page(include, "3", version)
    names = [name for group in groups for name in make_function(folder, version, include, *group)]
    page.add("NAME", [include + " \\- " + escape(" ".join(brief.split()).rstrip("."))])
    page.add("SYNOPSIS", code(["#include <%s.h>" % include, "", *(name + "(3)" for name in names)]))
    page.add("DESCRIPTION", paragraphs(overview))
    page.add("TYPES", code("\n\n".join(types).split("\n")))
    page.add("SEE ALSO", ["loquet(1), loquetd(8)" + ("" if include == "loquet" else ", loquet(3)")])
    page.write(folder)


def main():
    folder, version, loquet, loquetd, *headers = sys.argv[1:]
    folder = pathlib.Path(folder)
    make_loquet(folder, version, loquet)
    make_loquetd(folder, version, loquetd)
    for header in headers:
        make_header(folder, version, pathlib.Path(header))


if __name__ == "__main__":
    main()
