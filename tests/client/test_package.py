#!/usr/bin/python3
"""What is installed: programs in C and C++ are built against it with pkg-config and with CMake, shared and static, and run.

usage: test_package.py BUILD_FOLDER
The libraries show the functions of their headers and nothing else, keep no state, and print nothing.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ROOT / "client" / "include"
build = pathlib.Path()
prefix = pathlib.Path()

BLOCKING = """
#include <loquet.h>
#include <stdio.h>
#include <string.h>
int main()
{
    struct loquet_why why;
    struct loquet_client *client = loquet_open("127.0.0.1:1", &why);
    struct loquet_request request = loquet_request();
    struct loquet_ticket *ticket;
    enum loquet_result result;
    memset(&request, 0, sizeof request);
    request.key = "k";
    request.lease_s = 1;
    result = loquet_acquire(client, &request, &ticket, &why);
    loquet_close(client);
    puts(loquet_result_text(result));
    return strcmp(loquet_version(), "VERSION");
}
"""
ON_LOOP = """
#include <loquet_uv.h>
#include <stdio.h>
static void on_alive(void *context, enum loquet_result result, uint64_t us, const struct loquet_why *why)
{
    (void)us, (void)why;
    puts(loquet_result_text(result));
    loquet_uv_close((struct loquet_uv *)context, NULL, NULL);
}
int main()
{
    uv_loop_t loop;
    struct loquet_uv *client;
    uv_loop_init(&loop);
    client = loquet_uv_open(&loop, "127.0.0.1:1", NULL);
    loquet_uv_ping(client, on_alive, client);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C CXX)
find_package(loquet VERSION REQUIRED)
foreach(language c cc)
    foreach(kind "" _static)
        add_executable(blocking_${language}${kind} blocking.${language})
        target_link_libraries(blocking_${language}${kind} PRIVATE loquet::loquet${kind})
        add_executable(on_loop_${language}${kind} on_loop.${language})
        target_link_libraries(on_loop_${language}${kind} PRIVATE loquet::uv${kind})
    endforeach()
endforeach()
"""


def run(*words, **kwargs):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, **kwargs)
    if result.returncode != 0:
        raise AssertionError("%s\n%s%s" % (words, result.stdout, result.stderr))
    return result.stdout


def declared(header):
    """The functions that a header declares."""
    text = re.sub(r"/\*.*?\*/|^\s*#.*?$", "", (HEADERS / header).read_text(encoding="utf-8"), flags=re.S | re.M)
    text = re.sub(r"typedef[^;]*;", "", text)
    return set(re.findall(r"\b(loquet_\w+)\(", text))


def version():
    return re.search(r"project\(loquet VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)


class Libraries(unittest.TestCase):
    def lib(self, name):
        (path,) = prefix.rglob(name)
        return path

    def exported(self, name):
        lines = run("nm", "--dynamic", "--defined-only", "--format=posix", self.lib(name)).splitlines()
        return {line.split()[0].partition("@")[0] for line in lines if line.split()[1] != "A"}

    def test_exported_names(self):
        self.assertEqual(self.exported("libloquet.so"), declared("loquet.h"))
        self.assertEqual(self.exported("libloquet_uv.so"), declared("loquet_uv.h"))

    def test_no_state(self):
        for name in ("libloquet.a", "libloquet_uv.a"):
            lines = run("nm", "--defined-only", "--format=sysv", self.lib(name)).splitlines()
            found = [line for line in lines if re.search(r"\|OBJECT\|.*\|\.(bss|data|tbss|tdata)\b(?!\.rel\.ro)", line)]
            self.assertEqual(found, [], name)

    def test_needs_no_more_than_it_should(self):
        needed = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", self.lib("libloquet.so"))))
        self.assertLessEqual(needed, {"libc.so.6", "libunistring.so.2", "libunistring.so.5"})

    def test_version_numbers(self):
        text = (HEADERS / "loquet.h").read_text(encoding="utf-8")
        numbers = [re.search(r"LOQUET_VERSION_%s +(\d+)" % part, text).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
        self.assertEqual(".".join(numbers), version())
        self.assertTrue(self.lib("libloquet.so.%s" % numbers[0]).is_symlink())


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="loquet-package-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("blocking", BLOCKING), ("on_loop", ON_LOOP)):
            text = text.replace("VERSION", version())
            # C has no other way to say what C++ says with a pair of brackets.
            (self.folder / (name + ".cc")).write_text(text, encoding="utf-8")
            (self.folder / (name + ".c")).write_text(text.replace(" = loquet_request();", ";"), encoding="utf-8")
        (libdir,) = {path.parent for path in prefix.rglob("libloquet.a")}
        self.libdir = libdir
        self.environment = {**os.environ, "PKG_CONFIG_PATH": str(libdir / "pkgconfig")}

    def check(self, program):
        out = run(program, env={**self.environment, "LD_LIBRARY_PATH": str(self.libdir)})
        self.assertEqual(out, "closed\n", "nobody listens there; and the library itself prints nothing")

    def flags(self, *words):
        return run("pkg-config", *words, env=self.environment).split()

    def compile(self, compiler, source, libs):
        program = self.folder / "program"
        flags = self.flags("--cflags", "loquet", "loquet-uv")
        run(*compiler, "-Wall", "-Wextra", "-Werror", *flags, self.folder / source, "-o", program, *libs)
        self.check(program)

    def test_pkg_config(self):
        for compiler, suffix in ((("cc", "-std=c99", "-D_POSIX_C_SOURCE=200809"), ".c"), (("c++", "-std=c++11"), ".cc")):
            for name, module in (("blocking", "loquet"), ("on_loop", "loquet-uv")):
                with self.subTest(compiler, module=module):
                    self.compile(compiler, name + suffix, self.flags("--libs", module))
                    static = [
                        {"-lloquet": "-l:libloquet.a", "-lloquet_uv": "-l:libloquet_uv.a"}.get(flag, flag)
                        for flag in self.flags("--static", "--libs", module)
                    ]
                    self.compile(compiler, name + suffix, static)

    def test_cmake(self):
        text = PROJECT.replace("VERSION REQUIRED", version() + " REQUIRED")
        (self.folder / "CMakeLists.txt").write_text(text, encoding="utf-8")
        run("cmake", "-S", self.folder, "-B", self.folder / "build", "-DCMAKE_PREFIX_PATH=%s" % prefix)
        run("cmake", "--build", self.folder / "build", "-j", 2)
        for language in ("c", "cc"):
            for name in ("blocking", "on_loop"):
                for kind in ("", "_static"):
                    with self.subTest(language, name=name, kind=kind):
                        self.check(self.folder / "build" / ("%s_%s%s" % (name, language, kind)))


def main():
    global build, prefix
    build = pathlib.Path(sys.argv.pop(1))
    with tempfile.TemporaryDirectory(prefix="loquet-prefix-") as folder:
        prefix = pathlib.Path(folder)
        run("cmake", "--install", build / "client", "--prefix", prefix)
        unittest.main()


if __name__ == "__main__":
    main()
