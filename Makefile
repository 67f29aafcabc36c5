# Two commands do all their own set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE # tests start hundreds of processes, each of which would compile earmark

.DEFAULT_GOAL := help
.PHONY: help demo test quick check format lint types fuzz mutation docs screenshots gate research-gate hooks dist release-check browser camera voice models answers adapt tables clean

help: ## List these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "%-14s %s\n", $$1, $$2 }'

demo: $(VENV)/.core ## Film a small scene and run the whole job on it, with the evidence models if they can be had
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[yamnet,vision]' \
	|| echo "going on without the libraries that name sounds, text and objects"
	@$(BIN)/earmark models get evidence || echo "going on with the models that are here"
	$(BIN)/earmark lab demo

test: $(VENV)/.dev browser camera voice models check ## Every check and every test: what CI runs
	$(BIN)/pytest -n 2 --dist loadfile || { echo "once more, alone: what failed"; $(BIN)/pytest --last-failed --last-failed-no-failures none; }

# What a person changes most: choosing, storing, asking, and the product from outside.
QUICK := $(wildcard tests/test_*.py tests/acceptance/test_[a-fp-s]*.py) tests/selection tests/run tests/captioning tests/search
quick: $(VENV)/.dev check ## The checks and the tests of what changes most, in about a minute
	$(BIN)/pytest -q -n 2 -m "not slow" $(QUICK)

check: format lint types ## Layout, lint and types; pre-commit runs the same three

format: $(VENV)/.dev ## Fail on what `ruff format .` would change
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev ## Rules and sizes, as pyproject.toml has them
	$(BIN)/ruff check .

types: $(VENV)/.dev ## Types of all of src, strictly
	$(BIN)/mypy

# Coverage-guided, a while for each target; what is found is kept in build/fuzz.
SECONDS ?= 600
fuzz: $(VENV)/.dev ## Fuzz how media, replies and annotations are read, SECONDS of each target
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	for target in boxes packets recording reply any-annotation epic captaincook4d egoexolearn \
	    factory10k csv dcase audacity goalstep egosound elan corrections; do \
	  $(BIN)/python tests/fuzz/run.py $$target $(SECONDS) build/fuzz/$$target || exit 1; done

# Of each package so many changes are tried; what no test notices is listed.
MUTANTS ?= 120
mutation: $(VENV)/.dev ## Break media, run, selection and the client on purpose, and count what the tests notice
	for package in media run selection client; do \
	  $(BIN)/python scripts/mutation.py $$package --mutants $(MUTANTS) || exit 1; done

# DATA holds epic/ (annotations of EPIC-KITCHENS-100 and EPIC-SOUNDS), resound/ (sound named as the recordings) and, for
# `answers`, `adapt` and `research-gate`, shift/ (sparse recordings and actions.csv); docs/evaluate.md says more.
DATA ?= ../shared/data
tables: gate research-gate answers adapt $(VENV)/.dev voice ## Every table of experiments/ that DATA and the fetched models give: hours
	$(BIN)/python scripts/activity_table.py $(DATA)/epic/EPIC_100_validation.csv
	$(BIN)/python scripts/speech_table.py
	$(BIN)/python scripts/find_table.py $(DATA)
	$(BIN)/python scripts/find_table.py $(DATA) --ranges 400

adapt: $(VENV)/.dev ## Print what adapting a gate by answers brings, on DATA
	$(BIN)/python scripts/adapt_table.py $(DATA) $(RUNS)

answers: $(VENV)/.dev ## Print what rounds and audits bring, with answers from the annotations in DATA and the gates in RUNS
	$(BIN)/python scripts/answers_table.py $(DATA) $(RUNS) experiments/answers/table.md

docs: $(VENV)/.dev ## Write docs/reference.md anew from the code, and build the site in build/site
	$(BIN)/python scripts/reference.py
	$(BIN)/mkdocs build --quiet

screenshots: $(VENV)/.dev browser ## Make the pictures of docs/ anew, in Chromium
	$(BIN)/python scripts/screenshots.py

# DATA holds resound/, shift/ and epic/; what was listened to and trained is kept in RUNS.
RUNS ?= runs
gate: $(VENV)/.dev ## Make recordings of sites, the open gate, gates without one family, and their table anew
	$(BIN)/python scripts/make_open_gate.py $(DATA) $(RUNS) --out src/earmark/gate/open.gate \
	  --families egoexolearn goalstep factory10k captaincook4d workers
	$(BIN)/python scripts/attribution.py $(DATA)/open_sounds/sounds.csv
	$(BIN)/python scripts/site_table.py $(DATA) $(RUNS) --frontlines energy gate '$(RUNS)/out-{family}/gate.gate'

research-gate: $(VENV)/.dev $(RUNS)/voices ## Make the default gate from raw sound in DATA, and its tables and energy's anew
	$(BIN)/python scripts/make_default_gate.py $(DATA) $(RUNS) --voices $(RUNS)/voices/usr/share --splits 0 1 2
	$(BIN)/python scripts/gate_table.py $(DATA) $(RUNS)
	$(BIN)/python scripts/energy_table.py $(DATA) $(RUNS)

# Recorded voices of Debian packages, unpacked and not installed: needs apt-get, but no rights.
VOICES := $(foreach language,en es fr ru,asterisk-core-sounds-$(language)-g722) tuxpaint-stamps-default
$(RUNS)/voices:
	mkdir -p $@.part
	cd $@.part && apt-get download $(VOICES) && for package in *.deb; do dpkg -x $$package . || exit 1; done
	mv $@.part $@

hooks: $(VENV)/.dev ## Run `make check` before every commit from now on
	$(BIN)/pre-commit install

dist: $(VENV)/.release ## Build the wheels of earmark and earmark-lab and the source archive into dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m build --no-isolation --wheel --outdir dist src/earmark_lab

release-check: $(VENV)/.release ## Fail unless TAG (such as v0.1.0) is the version, and the changelog has it
	PYTHONPATH=src $(BIN)/python scripts/release_check.py "$(TAG)"

models: $(VENV)/.dev ## Get the small models that tests run, where they can be had
	@for name in evidence hands centerface; do $(BIN)/earmark models get $$name >/dev/null \
	|| echo "no $$name here: the tests that need it are skipped"; done

voice: ## Get espeak-ng, for the tests of speech, where that can be had
	@command -v espeak-ng >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq espeak-ng >/dev/null; } \
	|| echo "no espeak-ng here: the tests of made speech are skipped"

camera: ## Get ffmpeg, GStreamer's RTSP server and an MQTT broker, for the tests of live streams, where they can be had
	@{ command -v ffmpeg && command -v mosquitto && /usr/bin/python3 -c "import gi; gi.require_version('GstRtspServer', '1.0')"; } >/dev/null 2>&1 \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ffmpeg mosquitto python3-gi gir1.2-gst-rtsp-server-1.0 gstreamer1.0-plugins-ugly gstreamer1.0-libav >/dev/null; } \
	|| echo "no live servers here: the tests of cameras are skipped"

browser: ## Get Chromium, for the tests that open the report, where that can be had
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null; } \
	|| echo "no Chromium here: the tests that open the report are skipped"

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.release: release-requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r release-requirements.txt
	touch $@

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . -e src/earmark_lab
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]' -e 'src/earmark_lab[torch]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib >/dev/null || true # on all cores, where pip uses one; some packages carry files that are no Python 3
	touch $(VENV)/.core $@
