"""Secrets: which settings are some, what stays, and that no command shows or writes one."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from custom_metrics.usage import secrets
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.secrets import BLANK, blank, blank_text, masked
from detector_plugin.filters import given_options, shared_detector, text_of_options
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.cli import command_names, main
from lm_eval_tasks.data.provenance import strict_json
from lm_eval_tasks.models.detector import HallucinationDetector
from lm_eval_tasks.runs import labels, read_runs, results_file
from lm_eval_tasks.runs.run import settings_of_run
from tests.changed_runs import change_results, change_samples
from tests.chat_endpoint import Endpoint
from tests.growth import LINEAR, exponent
from tests.labelled_facts import facts, write_lines
from tests.logged_runs import copied, detect_log, files_of, in_this_process, lines
from tests.miniature import MINIATURE
from tests.test_marking_page import content_of

PACKAGE = Path(secrets.__file__).parent
Row = dict[str, Any]

TOKEN = "hf_" + "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv"
KEY = "sk-proj-" + "Zy9Xw8Vu7Ts6Rq5Po4Nm3Lk2"
PASSWORD = "correct-horse%2Bbattery"
IN_ADDRESS = "quiet7meadow"
IN_HEADER = "lantern/4+rivers=="
SECRETS = (TOKEN, KEY, PASSWORD, IN_ADDRESS, IN_HEADER)
NEEDS_API = pytest.mark.skipif(find_spec("tenacity") is None, reason="the harness's API models need lm-eval[api]")

LONG = "0123456789abcdef0123456789abcdef"
PRIVATE = "-----BEGIN PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    "token api_key apikey key secret password passwd pwd auth authorization bearer access_token hf_token use_auth_token "
    "openai_api_key OPENAI_API_KEY apiKey APIKey x-api-key X-Auth-Token client_secret aws_secret_access_key api_key_2 "
    "credentials X-Gateway-Token Ocp-Apim-Subscription-Key cookie api_keys huggingface_token PGPASSWORD pass pat jwt "
    "db_pass MYSQL_PWD SSHPASS github_pat dbpassword NGC_APIKEY".split(),
)
def test_values_of_these_names_are_secrets_however_short(name: str) -> None:
    assert blank({name: "abc"}) == {name: BLANK}
    assert blank({"a": [{name: ["abc", {"b": "c"}]}]}) == {"a": [{name: [BLANK, {"b": BLANK}]}]}
    assert blank(f"a=b,{name}=abc,c=d") == f"a=b,{name}={BLANK},c=d"
    assert blank(f"http://h/v1?{name}=abc&c=d#e f") == f"http://h/v1?{name}={BLANK}&c=d#e f"
    assert blank(f'x {{"{name}": "a, b"}}') == f'x {{"{name}": "{BLANK}"}}'
    assert blank(f"{{'{name}': 'a, b'}}") == f"{{'{name}': '{BLANK}'}}"
    assert json.loads(blank(json.dumps({"a": json.dumps({name: "abc"})}))) == {"a": json.dumps({name: BLANK})}
    assert blank(f"{name}: abc1 def") == f"{name}: {BLANK} def"
    assert blank([f"--{name}", "abc", "--b", "c"]) == [f"--{name}", BLANK, "--b", "c"]
    assert blank(f"cmd --{name} abc --b c") == f"cmd --{name} {BLANK} --b c"


@pytest.mark.parametrize(
    "name",
    "max_tokens tokenizer num_tokens eos_token pad_token pad_token_id until keyword cache_key token_limit add_bos_token "
    "tokenized_requests tokenizer_backend api_key_env api_key_file monkey author sort_key secretary bypass path pattern "
    "first_pass_rate compass".split(),
)
def test_values_of_other_names_stay(name: str) -> None:
    for setting in ({name: "abc"}, f"a=b,{name}=abc", f"{name}: abc", f"cmd --{name} abc", [f"--{name}", "abc"]):
        assert blank(setting) == setting
    assert blank({"cache_key": LONG, "tokenizer": LONG}) == {"cache_key": LONG, "tokenizer": LONG}
    # a name that may be a secret's: long random values are
    assert blank({"wandb_key": LONG, "text_key": "text"}) == {"wandb_key": BLANK, "text_key": "text"}
    assert blank(f"wandb_key={LONG},text_key=text") == f"wandb_key={BLANK},text_key=text"


@pytest.mark.parametrize(
    "value", [True, False, None, 5, 0.5, "true", "None", "12", "", "$HF_TOKEN", "${HF_TOKEN}", "OPENAI_API_KEY", BLANK]
)
def test_a_switch_a_number_and_the_name_of_a_variable_stay(value: Any) -> None:
    assert blank({"token": value}) == {"token": value}
    assert blank(f"token={value},b=c") == f"token={value},b=c"
    assert blank({"password": 31415926, "max_tokens": 31415926}) == {"password": BLANK, "max_tokens": 31415926}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (TOKEN, BLANK),
        (f"models/{TOKEN}/x_{TOKEN}", f"models/{BLANK}/x_{BLANK}"),
        (f"Incorrect API key provided: {KEY}.", f"Incorrect API key provided: {BLANK}."),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVP", BLANK),
        ("https://me:p@ss:w@host:80/v1", f"https://{BLANK}@host:80/v1"),
        ("/x/https:/me:p@h/v1", f"/x/https:/{BLANK}@h/v1"),
        ("Authorization: Bearer abc def", f"Authorization: Bearer {BLANK} def"),
        ("password=two words,x=3", f"password={BLANK},x=3"),
        ("token=two words --x", f"token={BLANK} --x"),
        ("password=„süß“;x", f"password={BLANK};x"),
        ("https://h/x?sv=1&sig=Ab%2Bdef123456789012345%3D&se=2", f"https://h/x?sv=1&sig={BLANK}&se=2"),
        # what only looks like some
        ("What does sk- mean, and hf_?", None),
        ("gerulata/sk-bert-base-cased, sk-characterization-of-models", None),
        ("http://localhost:8000,email=me@x.org", None),
        *((text, None) for text in ('{"u":"http://localhost:8000","m":"a@b"}', "https://x.org/@me/a?b=c@d")),
        *((text, None) for text in ("the token: it ends a text", "eos_token=<|endoftext|>")),
        *((text, None) for text in ('{"a": "\\ud800 b", "n": 1.0}', "[" * 100_000)),
    ],
)
def test_secrets_by_their_form_and_in_text(text: str, shown: str | None) -> None:
    assert blank(text) == (text if shown is None else shown)
    assert blank(blank(text)) == blank(text)


FORMS = [line.split("\t") for line in (PACKAGE / "secrets.tsv").read_text("utf-8").splitlines()[1:]]


@pytest.mark.parametrize(("name", "example"), [(name, example) for name, _, example, _ in FORMS])
def test_every_form_of_the_table_is_a_secret_in_any_text(name: str, example: str) -> None:
    """A bar in the example stands behind the prefix, so that no scanner takes it for a key."""
    prefix, _, rest = example.partition("|")
    stays = prefix if prefix.startswith("https:") or name == "Bearer" else ""
    for before, behind in (("", ""), ("Use ", ", or"), ('{"x": "', '"}'), ("(", ")\n")):
        text, shown = before + prefix + rest + behind, before + stays + BLANK + behind
        assert (blank(text), blank(shown)) == (shown, shown)
        hidden, (_, moved) = masked(text), blank_text(text)
        secret = text[len(before + stays) : len(text) - len(behind)]
        assert hidden == before + stays + re.sub(r"\S", "x", secret) + behind
        assert [moved(0), moved(len(text))] == [0, len(shown)]
    if name != "Private key":
        assert blank(f"The prefix {prefix} is no key.") == f"The prefix {prefix} is no key."


@pytest.mark.one_python("how time grows")
@pytest.mark.parametrize("before", ["", "token=", '{"a":"', "http://"])
@pytest.mark.parametrize(
    "unit",
    [
        *("a", "token=", "x_key=", "api_key: ", 'token="', "token=[", "--api-key ", "API_KEY=", '\\"token\\":\\"'),
        *("://a:b", "http://a,", "sk-a-", "-sk-aaaaaaaa-", "-eyJaaaaaaaa", "eyJaaaaaaaaa.", "Bearer ", PRIVATE),
        *("[1,", "&key=a", "token=a ", "token   ", "\\", "key=$", "@", "fw_", "SG.aaaaaaaaaaaaaaaa", "pa-", "1:AA"),
    ],
)
@pytest.mark.slow("texts that are long enough to take measurable time")
def test_time_is_linear(unit: str, before: str) -> None:
    assert exponent(blank, lambda size: before + unit * (size // len(unit)), 20_000, times=4) < LINEAR


def test_runs_that_differ_in_the_key_alone_are_the_same(closed_book: Path, tmp_path: Path) -> None:
    def keyed(key: str) -> Path:
        def change(results: Row) -> None:
            results["config"]["model_args"] = {"pretrained": "x", "api_key": key}
            for config in results["configs"].values():
                config["metadata"]["provenance"]["detector"]["options"] = {"base_url": f"http://u:{key}@h/v1"}
                config["generation_kwargs"]["headers"] = {"Authorization": f"Bearer {key}"}

        change_results(copied(closed_book, tmp_path / key), change)
        return tmp_path / key

    first, second = read_runs([keyed("k1"), keyed("k2")])
    assert labels([first, second]) == ["sample/closed-book (k1)", "sample/closed-book (k2)"]  # the folders' names
    assert settings_of_run(first) == settings_of_run(second)
    names = {HallucinationDetector.results_name(f"detector=a/b,base_url=http://u:{key}@h") for key in ("k1", "k2")}
    assert len(names) == 1
    stores = {StoredDetector(shared_detector("flag-all"), tmp_path / "x", {"api_key": key})._key("a") for key in "ab"}
    assert len(stores) == 1


def test_a_detector_gets_the_key_that_its_documents_do_not_hold() -> None:
    text = text_of_options({"model": "m", "api_key": KEY})
    assert json.loads(text) == {"model": "m", "api_key": BLANK}
    assert json.loads(given_options(text)) == {"model": "m", "api_key": KEY}
    with pytest.raises(UsageError, match="name the detector again with yours"):
        shared_detector("llm", json.dumps({"model": "of another process", "api_key": BLANK}))


def test_a_record_holds_no_secret() -> None:
    options = {"token": KEY, "url": f"http://h/v1?key={IN_ADDRESS}", "passages": 3}
    shown = {"token": BLANK, "url": f"http://h/v1?key={BLANK}", "passages": 3}
    assert strict_json({"options": options}) == {"options": shown}


def test_errors_quote_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert str(UsageError(f"http://u:{PASSWORD}@h: no answer")) == f"http://{BLANK}@h: no answer"
    with pytest.raises(SystemExit):
        main(["sources", "--api_key", KEY, f"--token={IN_HEADER}"])
    assert capsys.readouterr().err.endswith(f"unrecognized arguments: --api_key {BLANK} --token={BLANK}\n")
    try:
        raise RuntimeError(f"Max retries exceeded with url: /v1?api_key={IN_ADDRESS} (Caused by x)")
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)
        assert IN_ADDRESS in traceback.format_exc()
    said = capsys.readouterr().err
    assert f"url: /v1?api_key={BLANK} (Caused by x)" in said
    assert "Traceback" in said


def test_a_page_sent_away_has_no_key_and_its_marks_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {
            "id": f"{KEY}{number}",
            "question": f"Welcher? {TOKEN}",
            "answer": f"Der Schlüssel {number} ist {TOKEN}, {KEY}.",
            "reference": f"Der Schlüssel ist rot; password={IN_ADDRESS} {number}",
            "language": "de",
        }
        for number in range(12)
    ]
    log = write_lines(tmp_path / "log.jsonl", rows)
    run = detect_log(log, tmp_path / "out.jsonl").parent
    assert len({row["doc"]["query_id"] for path in run.glob("samples_*") for row in lines(path)}) == 12
    assert main(["mark", str(run), "-o", str(tmp_path / "marking")]) == 0
    assert main(["report", str(run), "-o", str(tmp_path / "marking" / "report.html")]) == 0
    assert not any(found_in(path.read_bytes()) for path in (tmp_path / "marking").iterdir())
    items = content_of((tmp_path / "marking" / "marking.html").read_text("utf-8"))["items"]
    assert {len(item["line"]["answer"]) for item in items} == {*map(len, (row["answer"] for row in rows))}
    marked = [{**item["line"], "annotator": "a", "spans": [], "seconds": 1.0} for item in items]
    marks = write_lines(tmp_path / "marks.jsonl", marked)
    assert main(["score", str(run), "--marks", str(marks), "-o", str(tmp_path / "scored")]) == 0
    assert "marked_rate" in capsys.readouterr().out


def found_in(content: bytes) -> list[str]:
    """The secrets that stand in a file or a text, in any writing."""
    writings = {
        secret: {
            *(secret, quote(secret, safe=""), html.escape(secret), json.dumps(secret)[1:-1].replace("/", "\\/")),
            base64.b64encode(secret.encode()).decode().rstrip("="),
        }
        for secret in SECRETS
    }
    return [secret for secret, ways in writings.items() if any(way.encode() in content for way in ways)]


def detector_args(url: str) -> str:
    """Options of a detector that asks the server, with three secrets."""
    address = f"{url.replace('//', f'//me:{PASSWORD}@')}?api_key={IN_ADDRESS}"
    options = {"base_url": address, "pretrained": "tagger", "max_retries": 1}
    return json.dumps({**options, "header": {"X-Gateway-Token": IN_HEADER}})


def planted(run: Path, to: Path) -> Path:
    """A copy of a run with all five secrets where the harness, or an earlier version of ours, wrote them."""
    copied(run, to)
    arguments = f"pretrained=x,token={TOKEN},api_key={KEY},base_url=https://me:{PASSWORD}@127.0.0.1:1/v1"
    options, kwargs = detector_args("http://127.0.0.1:1/v1"), {"extra": {"Authorization": f"Bearer {IN_HEADER}"}}

    def change(results: Row) -> None:
        as_mapping = dict(pair.split("=", 1) for pair in arguments.split(","))
        results["system_instruction"] = f"Call the tool with Authorization: Bearer {IN_HEADER}, and answer briefly."
        results["config"] |= {"model_args": as_mapping if "lexical" in run.name else arguments, "gen_kwargs": kwargs}
        results["config"]["detector"] = {"name": "llm:tagger", "version": "1", "options": json.loads(options)}
        typed = ["lm_eval", "--model_args", arguments, "--metadata", f"detector_args={options}", "--tasks", "t"]
        for config in results["configs"].values():
            config["metadata"] |= {**as_mapping, "detector_args": options, "command_line": shlex.join(typed)}
            config["generation_kwargs"] = {**(config.get("generation_kwargs") or {}), **kwargs}
            if detector := config["metadata"]["provenance"].get("detector"):
                detector["options"] = json.loads(options)
            config["metadata"]["provenance"]["options"] |= {"mirror": f"http://me:{PASSWORD}@h"}

    def change_rows(rows: list[Row]) -> list[Row]:
        for row in rows:
            row["doc"] |= {"detector_args": options} if "detector_args" in row["doc"] else {}
            row["arguments"]["gen_args_0"]["arg_1"] |= kwargs
        return rows

    change_results(to, change)
    for path in to.glob("samples_*.jsonl"):
        change_samples(to, path.name.removeprefix("samples_").rpartition("_2")[0], change_rows)
    assert all(len(found_in(path.read_bytes())) >= 1 for path in to.glob("*_2*.json*"))
    return to


def results_in(folder: Path) -> Path:
    (file,) = folder.rglob("results_*.json")
    return file


@NEEDS_API
def test_no_command_shows_or_writes_a_secret(
    two_models: Path,
    closed_book: Path,
    predicted: Path,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    given, written = tmp_path / "given", tmp_path / "written"
    given.mkdir()
    written.mkdir()
    monkeypatch.chdir(written)
    lexical, answer = (planted(two_models / f"baseline-{name}", given / name) for name in ("lexical", "answer"))
    tagged, untagged = planted(closed_book, given / "runs" / "tagged"), planted(predicted, given / "untagged")
    replies, articles = (Path(__file__).parent / f"data/making/{name}.jsonl" for name in ("replies", "articles"))
    of_articles = {"articles": str(articles), "language": "de"}
    in_this_process(["mfava_make_queries"], "replay", f"path={replies}", given / "made", metadata=of_articles)
    made = planted(files_of(given / "made"), given / "questions")
    marked = write_lines(given / "marked.jsonl", facts(24, annotations="real"))
    rows = [{"answer": "Die Katze ist rot", "reference": "Die Katze ist blau.", "language": "de"}]
    log = write_lines(given / "log.jsonl", rows * 3)
    reads = ["--detector", "llm", "--detector_args", detector_args(url)]
    options = {"mirror": MINIATURE, "detector": "llm", "detector_args": json.loads(detector_args(url))}
    asked = ["--metadata", json.dumps(options)]
    model = f"model=x,token={TOKEN},api_key={KEY},base_url=https://me:{PASSWORD}@127.0.0.1:1/v1"
    calls: dict[str, list[tuple[int, list[Any]]]] = {
        "abstention": [(0, ["I do not know.", "--language", "en"])],
        "calibrate": [(0, [marked, *reads, "-o", "c.json"]), (2, [tagged, "-o", "d.json"])],
        "check": [
            (0, ["--model", "local-chat-completions", "--model_args", model, "--tasks", "mfava_de", *asked]),
            (1, ["--model", "hallucination-detector", "--model_args", model, "--tasks", "mfava_de", *asked]),
        ],
        "compare": [
            *(
                (0, [lexical, answer, "--format", form, "-o", f"compared.{form}"])
                for form in ("markdown", "json", "csv")
            ),
            (0, [lexical, answer]),
        ],
        "detect": [
            (0, [log, "-o", "out.jsonl", *reads]),
            (0, ["--reference", "Die Katze ist blau.", "--answer", "Die Katze ist rot", *reads]),
            (2, [log, "-o", "failed.jsonl", "--detector", "llm", "--detector_args", f"api_key={KEY}"]),
        ],
        "export": [
            (0, ["tasks", tagged, "-o", "separated"]),
            (0, ["clapnq", "--split", "dev", "--mirror", MINIATURE, "-o", "dev.jsonl"]),
        ],
        "make": [(0, ["collect", made, "-o", "questions.jsonl"])],
        "mark": [(0, [tagged, "--tasks", "mfava_de", "-o", "marking"])],
        "report": [
            *((0, [lexical, answer, tagged, "-o", "report.html"]), (0, [given / "runs", "-o", "site"])),
            (0, [tagged, "--format", "markdown", "-o", "report.md"]),
        ],
        "reproduce": [(0, [results_in(tagged)])],
        "retrieve": [(0, ["--retriever", "bm25", "--split", "dev", "--mirror", MINIATURE, "-o", "run.tsv"])],
        "score": [(0, [untagged, "-o", "scored", *reads])],
        "sources": [(0, ["--mirror", MINIATURE])],
        "train": [(0, ["--show"])],
    }
    assert [*calls] == command_names()
    for name, arguments in calls.items():
        for status, call in arguments:
            caplog.clear()
            results_file._warn.cache_clear()
            assert main([name, *map(str, call)]) == status, f"{name} {call}: {capfd.readouterr()}"
            said = capfd.readouterr()
            for text in (said.out, said.err, caplog.text):
                assert not found_in(text.encode()), f"{name} {call}: {text}"
            read = [place for place in call if isinstance(place, Path) and [*place.glob("**/results_*.json")]]
            if name in ("report", "export"):
                warned = [caplog.text.count(f"{file} holds what looks like a key") for file in map(results_in, read)]
                assert warned == [1] * len(read)
            if name == "reproduce":
                (line,) = [line for line in said.out.splitlines() if line.startswith("lm_eval ")]
                assert (line.count(BLANK), said.out.count(f"# {BLANK} stands for a key or a password")) == (6, 1)
    basic = "Basic " + base64.b64encode(f"me:{unquote(PASSWORD)}".encode()).decode()
    assert {*Endpoint.addressed} == {(f"/v1/chat/completions?api_key={IN_ADDRESS}", basic, IN_HEADER)}
    for path in written.rglob("*"):
        assert not (path.is_file() and found_in(path.read_bytes())), path


@NEEDS_API
def test_what_a_run_writes_of_ours_holds_no_secret(url: str, tmp_path: Path) -> None:
    """The harness itself writes the model's arguments as they were typed, into ``config.model_args``."""
    options = {"detector": "llm", **json.loads(detector_args(url))}
    in_this_process(["mfava_detection_de_gold"], "hallucination-detector", options, tmp_path, limit=2)
    results = json.loads(results_in(tmp_path).read_text("utf-8"))
    assert found_in(json.dumps(results["config"].pop("model_args")).encode()) == [PASSWORD, IN_ADDRESS, IN_HEADER]
    assert results["config"]["detector"]["options"]["header"] == {"X-Gateway-Token": BLANK}
    assert not found_in(json.dumps(results).encode())
    assert not any(found_in(path.read_bytes()) for path in tmp_path.rglob("samples_*.jsonl"))
    assert len(Endpoint.asked) == 2


def test_the_configuration_of_a_task_holds_no_secret_of_the_command_line(tmp_path: Path) -> None:
    """The harness itself writes ``config.gen_kwargs``, and the arguments of requests in samples, as they were typed."""
    kwargs = {"api_key": KEY, "extra": {"Authorization": f"Bearer {IN_HEADER}"}}
    in_this_process(["nomiracl_de"], "grounded-baseline", "strategy=abstain", tmp_path, limit=2, gen_kwargs=kwargs)
    results = json.loads(results_in(tmp_path).read_text("utf-8"))
    assert results["configs"]["nomiracl_de"]["generation_kwargs"]["api_key"] == BLANK
    assert not found_in(json.dumps(results["configs"]).encode())
