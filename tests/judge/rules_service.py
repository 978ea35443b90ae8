"""The service as a whole: every request is answered at most once and in time, connections end for a reason, and after
the faults everybody gets on."""

from history import NS


def check_answers(case):
    for text, events in case.history.complaints:
        case.report("answers", text, *events)
    case.checked["answers"] += case.history.operations()


def check_connections(case):
    """A connection ends because its client wants it, and has its answers then; or because of a fault of its node."""
    for conn in case.history.connections.values():
        case.checked["connections"] += 1
        begin = conn.last_answer or conn.opened
        if conn.error is not None and not case.excused(conn.node, begin, conn.error["t"]):
            case.report("connections", "E %s without a fault of node %s" % (conn.error.get("code"), conn.node), conn.error)
        elif conn.close_event is not None and conn.close_event["why"] != "own":
            is_due = conn.shut is not None and all(operation.outcome for operation in conn.operations)
            if conn.error is None and not is_due and not case.excused(conn.node, conn.closed, conn.closed):
                text = "the connection of client %s ended (%s), though node %s was up" % (
                    conn.client, conn.close_event["why"], conn.node)  # fmt: skip
                case.report("connections", text, conn.open_event, conn.close_event)


def check_answered(case):
    """What is open is answered when it is due, or its connection ends."""
    for operation in case.history.acquires:
        wait_end = operation.sent + int(case.limits.slow * operation.wait)
        if operation.given_up is not None:
            wait_end = min(wait_end, operation.given_up)
        _check_due(case, operation, wait_end)
    for operation in case.history.touches:
        _check_due(case, operation, operation.sent)


def _check_due(case, operation, wait_end):
    case.checked["in time"] += 1
    end = operation.answered or operation.conn.closed or case.history.end
    slack = 0 if operation.outcome in ("A", "T", "B") else int(case.limits.answer_s * NS)
    due = case.stretch(operation.sent, wait_end + slack)
    if end > due:
        what = "was answered" if operation.outcome else "had no answer"
        text = "the request %s %.3f s after its send" % (what, (end - operation.sent) / NS)
        case.report("in time", text, operation.event, operation.answer)


def check_progress(case):
    """After "calm", each client that asks for something has an answer within the stated time."""
    calm = case.history.calm
    if calm is None:
        return
    limit = int(calm["within_s"] * NS)
    begin, end = calm["t"], calm["t"] + limit
    first_wish, first_answer = {}, {}
    for operation in case.history.acquires + case.history.touches:
        client = operation.conn.client
        closed = operation.conn.closed
        if operation.answered is not None and operation.answered > begin:
            first_answer[client] = min(operation.answered, first_answer.get(client, operation.answered))
        is_open = operation.answered is None or operation.answered > begin
        if is_open and operation.sent < end and (closed is None or closed > begin):
            wish = max(begin, operation.sent) + getattr(operation, "wait", 0)
            if client not in first_wish or wish < first_wish[client][0]:
                first_wish[client] = (wish, operation)
    _check_let_in(case, calm, end)
    for client, (wish, operation) in sorted(first_wish.items(), key=lambda item: str(item[0])):
        case.checked["progress"] += 1
        due = wish + limit  # who waits may be answered at the end of the wait
        if first_answer.get(client, due + 1) > due and due <= case.history.end:
            text = "client %s had no answer within %.1f s after all was well" % (client, calm["within_s"])
            case.report("progress", text, calm, operation.event, operation.answer)


def _check_let_in(case, calm, end):
    """Who lost its connection has another one by then. Nobody hears of those who are refused, as they ask for nothing."""
    last = {}
    for conn in case.history.connections.values():  # in the order of their begin
        last[conn.client] = conn
    for client, conn in last.items():
        if conn.closed is not None and conn.closed < calm["t"] and conn.close_event["why"] != "own" and end <= case.history.end:
            text = "client %s had no connection again %.1f s after all was well" % (client, calm["within_s"])
            case.report("progress", text, calm, conn.close_event)
