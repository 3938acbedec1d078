"""What AlertOnFailures takes for a failure when it is told nothing: failures, and nothing that only looks like one."""

from __future__ import annotations

import re
import time

import pytest
from callback_runs import calling_agent, code_agent
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from smolagents import Tool
from smolagents.memory import ActionStep

from smolagents_memory import AlertOnFailures
from smolagents_memory.callbacks import failure_signs
from smolagents_memory.testing import call, code


ORDINARY = [
    "200 OK in 512 ms",
    "Read 540 rows",
    "GET /health: 200",
    "GET /items?limit=500: 200",
    'GET /a HTTP/1.1" 200 503',
    '127.0.0.1 - - [18/Nov/2026:07:00:00 +0000] "GET /a HTTP/1.1" 200 512 "-" "curl/8.5.0"',
    "GET /report 200 in 503 ms",
    "POST /jobs -> 201 (500 bytes)",
    "GET https://example.org/page: 404",
    "status: 200, 502 items",
    "status=ok latency=504ms",
    "HTTP 200, 500 kB",
    "Fetched 503 pages, 404 of them new.",
    "total: 512",
    "The answer is 542.",
    "[500, 501, 502, 503]",
    "Port 500 is open.",
    "512\n540",
    "Last output from code snippet:\n540",
    "500 rows\n500 rows",
    "price: 500 USD",
    "Query returned 503 results in 0.5 s",
    "Temperature: 500 K",
    "| 500 | 502 | 503 |",
    "status: pending (512 of 540)",
    "Retrying in 5 s; last error: none",
    "The download is done.",
    "room 503, 5th floor",
    "no errors found",
    "No errors. No warnings.",
    "0 errors, 3 warnings",
    "0 failed, 12 passed in 3.1s",
    "12 passed, 0 failed, 0 errors",
    "Tests run: 12, Failures: 0, Errors: 0, Skipped: 0",
    "Errors: 0",
    "error: none",
    "error: null",
    "Error: False",
    '{"error": null, "rows": 540}',
    '{"errors": [], "status": "ok"}',
    "{'error': None, 'failed': 0}",
    '{"error_count": 0, "success": true}',
    "exit code 0",
    "Process finished with exit code 0",
    "exited with status 0",
    "returncode=0",
    "timeout=30",
    "Timeout: 30 s",
    "The timeout is 500 ms.",
    "The connection never timed out.",
    "0 requests timed out",
    "error rate: 0.0 %",
    "mean squared error: 0.512",
    "Standard error 0.03, t = 5.12",
    "The error of measurement is below 5 %.",
    "Fixed 3 errors in the report.",
    "The build succeeded without errors.",
    "Nothing failed.",
    "All 500 requests succeeded; none failed.",
    "ValueError is raised when an argument has the right type but an inappropriate value.",
    "KeyError: Raised when a mapping key is not found in the set of existing keys.",
    "A 503 means that the service is unavailable for a while; try again later.",
    "500 Internal Server Error means that the server met something it did not expect.",
    "If permission is denied, ask an administrator.",
    "How to fix 'permission denied' in Docker",
    "How to handle errors: wrap the call in try and except.",
    "When the request timed out, try it again.",
    "If you see 'connection refused', start the server first.",
    "Error handling\n==============\nEvery error has a code.",
    "The Comedy of Errors, by William Shakespeare",
    "errors.py  failures.py  timeout.py  500.html",
    "class NotFoundError(Exception):\n    pass",
    "try:\n    go()\nexcept ConnectionError as error:\n    raise ValueError('timed out') from error",
    "def on_error(error):\n    print('Error: ' + str(error))",
    'logger.error("connection refused")',
    'MESSAGE = "permission denied"',
    "raise TimeoutError('timed out')",
    "if response.status_code == 500:\n    retry()",
    "# Error: this line is a comment",
    "LOG_LEVEL=ERROR",
    "INFO 0 errors",
    "The query returned 502.",
    "The population returned 500",
    "Average response: 503",
    "Take exit 5 on the highway",
    "Exit 12 on the highway",
    "Status: Down 3% today",
    "5 errors fixed",
    "3 errors were fixed.",
    "12 failed attempts were blocked",
    "HTTP 502 means bad gateway",
    "HTTP 500 Internal Server Error means that the server failed",
    "E: 12",
    "E: drive is mounted",
    "Fatal: 3, injured: 10",
    "1. Permission denied (publickey) - Stack Overflow",
    "2. ERROR: could not find a version - GitHub",
    "[ssh - Connection refused - Ask Ubuntu](https://askubuntu.com/q/1)\n[Error: it broke](https://example.org/a)",
    "No error occurred.",
    "If an error occurred, it is in the log.",
    "0 tests failed",
    "None of the 3 tests failed.",
    "Errors",
    '{"ok": true}',
    "The regime failed.",
    "2026-11-18 07:00:00 INFO started in 503 ms",
    "DEBUG error handler installed",
    "",
    "done",
]

FAILURES = [
    "GET /health: 503",
    "GET http://127.0.0.1:8000/health: 500",
    "GET /health -> 502",
    "HTTP 500",
    "HTTP/1.1 503 Service Unavailable",
    "HTTP Error 500: Internal Server Error",
    "HTTP status 504",
    "status: 503",
    "status code 500",
    "status_code=502",
    "Status: 503 Service Unavailable",
    "<Response [500]>",
    "500 Internal Server Error",
    "502 Bad Gateway",
    "The server answered 503 Service Unavailable.",
    '127.0.0.1 - - [18/Nov/2026:07:00:00 +0000] "GET /a HTTP/1.1" 500 12',
    "503",
    "Execution logs:\nLast output from code snippet:\n500",
    "Execution logs:\nGET /health: 200\nGET /health: 503\nLast output from code snippet:\nNone",
    "[ALERT] 503",
    "Error 500",
    "upstream returned 502",
    "Server responded with 504.",
    "make: *** [all] Error 2",
    "Error executing tool 'x'",
    "health: DOWN (503)",
    "Internal Server Error",
    "401 Unauthorized",
    "403 Forbidden",
    "429 Too Many Requests",
    "curl: (22) The requested URL returned error: 500",
    'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no such row',
    "ValueError: invalid literal for int() with base 10: 'x'",
    "requests.exceptions.ConnectionError: HTTPConnectionPool(host='x', port=80)",
    "Exception: it went wrong",
    "java.lang.NullPointerException: it was null",
    "KeyboardInterrupt",
    "Error: the file is missing",
    "ERROR: could not find a version that satisfies the requirement",
    "error: failed to push some refs",
    "[ERROR] the disk is full",
    "ERROR:root:it went wrong",
    "2026-11-18 07:00:00 ERROR db: lost the connection",
    "2026-11-18T07:00:00Z [CRITICAL] shutting down",
    "fatal: not a git repository (or any of the parent directories): .git",
    "error[E0308]: mismatched types",
    "npm ERR! code E404",
    "E: Unable to locate package foo",
    '{"error": "no such table: users"}',
    "{'error': 'it went wrong'}",
    '{"status": "error", "message": "no quota"}',
    '{"success": false}',
    '{"errors": ["a is missing"]}',
    "The request timed out.",
    "ReadTimeout: no answer after 30 s",
    "curl: (28) Operation timed out after 3001 milliseconds",
    "context deadline exceeded",
    "Timeout while waiting for the element",
    "exit code 1",
    "Process exited with code 137",
    "exited with status 2",
    "returncode=127",
    "Command 'make' returned non-zero exit status 2.",
    "bash: foo: command not found",
    "ls: cannot open directory '/root': Permission denied",
    "permission denied",
    "Access denied for user 'root'@'localhost'",
    "cat: a.txt: No such file or directory",
    "connect: Connection refused",
    "connection reset by peer",
    "curl: (6) Could not resolve host: example.invalid",
    "Segmentation fault (core dumped)",
    "Killed",
    "No space left on device",
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "2 failed, 10 passed in 3.2s",
    "Tests run: 12, Failures: 2, Errors: 0, Skipped: 0",
    "Found 3 errors in 2 files",
    "FAILED tests/test_a.py::test_b - assert 1 == 2",
    "Failed to open the page",
    "BUILD FAILED",
    '{"ok": false}',
    "{'succeeded': False}",
    "ssh: web1: Name or service not known",
    "SEVERE: the pool is exhausted",
    "504 Gateway Time-out",
    "The connection was lost.",
    "connection closed unexpectedly",
    "404 Client Error: Not Found for url: http://x/a",
    'psql: error: connection to server at "db" failed',
    "src/main.c:3:5: error: expected ';' before '}'",
    "gcc: fatal error: cannot read the specs",
    "error TS2304: Cannot find name 'x'.",
    "src/a.ts(3,5): error TS2304: Cannot find name 'x'.",
    "Operation failed",
    "The operation failed.",
    "Login failed: wrong password",
    "3 tests failed",
    "An error occurred while fetching the page",
    "Error",
    "Execution logs:\nError!\nLast output from code snippet:\nNone",
    "Service returned 503",
    "psql: unable to connect to the server",
    "Unhandled exception at 0x0042",
    'near "FORM": syntax error',
    "408 Request Timeout",
    "GET http://shop/health returned 503",
    "Response: 503",
]


SIGNS = [
    *failure_signs._BEGINNINGS,
    *failure_signs._TELLING,
    *(re.compile(rf"\b(?:{each})\b", re.IGNORECASE) for each in failure_signs._SAID),
]


def counts(observed: str) -> bool:
    return AlertOnFailures().judge(ActionStep(1, None, observations=observed))


@pytest.mark.parametrize("observed", ORDINARY)
def test_ordinary_work_is_no_failure(observed: str) -> None:
    assert not counts(observed)


@pytest.mark.parametrize("observed", FAILURES)
def test_a_failure_is_one(observed: str) -> None:
    assert counts(observed)


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: sign.pattern[:40])
@settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_no_line_that_a_sign_matches_is_passed_over(sign: re.Pattern[str], data: st.DataObject) -> None:
    positive = sign.pattern.replace(rf"(?!\s*(?:{failure_signs._NOTHING}))", "")  # of what it is not, none is made
    line = data.draw(st.from_regex(re.compile(positive, sign.flags))) + data.draw(st.sampled_from(["", " it broke"]))
    assume(sign.match(line) if sign in failure_signs._BEGINNINGS else sign.search(line))
    assert failure_signs._MAYBE.search(line), line


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: sign.pattern[:40])
def test_each_sign_is_one_of_a_failure_above(sign: re.Pattern[str]) -> None:
    assert any(sign.search(line) for observed in FAILURES for line in failure_signs._lines(observed))


def test_a_run_full_of_ordinary_work_sets_off_no_alert_and_failing_three_times_does() -> None:
    alerts: list[object] = []
    ordinary = [code(f"print({text!r})") for text in ORDINARY if text]
    agent = code_agent(
        [*ordinary, code("final_answer('done')")],
        step_callbacks=[AlertOnFailures(on_alert=alerts.append)],
        max_steps=len(ordinary) + 1,
    )
    agent.run("Watch.")
    assert alerts == []
    agent = code_agent(
        [code("1 / 0"), code("print('fine')"), "no code", code("open_it()"), code("final_answer('done')")],
        step_callbacks=[AlertOnFailures(on_alert=alerts.append)],
    )
    agent.run("Watch.")
    assert len(alerts) == 1


class Status(Tool):
    name = "status"
    description = "The status of a service."
    inputs: dict[str, dict[str, str]] = {}
    output_type = "integer"

    def forward(self) -> int:
        return 503


def test_a_status_that_a_tool_returned_bare_is_seen() -> None:
    alerts: list[object] = []
    script = [*[call("status")] * 3, call("final_answer", answer="down")]
    agent = calling_agent(script, tools=[Status()], step_callbacks=[AlertOnFailures(on_alert=alerts.append)])
    agent.run("Watch.")
    assert len(alerts) == 1


@pytest.mark.slow
def test_long_texts_are_read_in_proportion_to_their_length() -> None:
    def took(text: str) -> float:
        best = float("inf")
        for _ in range(3):
            begun = time.perf_counter()
            assert not counts(text)
            best = min(best, time.perf_counter() - begun)
        return best

    for piece in ("word " * 200 + "\n", "no ", "GET ", "status ", "a.b.", "500 ", "Aa", "2026-11-18 ", "\n"):
        short, long = piece * (20_000 // len(piece)), piece * (320_000 // len(piece))
        assert took(long) < 16 * 4 * max(took(short), 1e-4), piece
