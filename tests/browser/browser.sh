# The beginning of tests in a browser: `source` it. It ends the test with 77, and says why, where there is no browser.
#
#     browse FILE [ARGUMENT...]      runs a program in Python (-: from standard input) that may import webdriver
browser_folder=${BASH_SOURCE[0]%/*}

browse() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$browser_folder python3 "$@"
}

command -v python3 >/dev/null || { echo "python3 is not here"; exit 77; }
browser_missing=$(browse - <<<'import webdriver; print(webdriver.missing() or "")') || exit 1
[[ -z $browser_missing ]] || { echo "$browser_missing"; exit 77; }
