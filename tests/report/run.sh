#!/usr/bin/env bash
# Pages of `henry report` in headless Chromium, which the suite installs; where it cannot, the tests are skipped, or fail if CI=true.
#     tests/report/run.sh [NAME]...
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${HENRY_TEST_BUILD:-$PWD/build}
export PYTHONDONTWRITEBYTECODE=1
has_browser() { python3 -c 'import sys; sys.path.insert(0, "tests/report"); import browser; sys.exit(not browser.find())'; }
if ! has_browser; then
    tools/setup.sh browser || true
fi
if ! has_browser; then
    [ "${CI:-}" = true ] && { echo "no Chromium, and it cannot be installed"; echo "0 passed, 1 failed"; exit 1; }
    echo "skipped: no Chromium, and it cannot be installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
python3 tests/report/pages.py "$build/henry" examples/data/digits "$@"
