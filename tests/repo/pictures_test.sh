#!/bin/bash
# Every algorithm has its line in docs/reference/algorithms.md, its picture, its entry in the gallery and a page that shows it, and all
# are what they would be if they were made now.
# ctest: label=once label=nosan
set -euo pipefail
cd "${TUTTI_ROOT:?}"

if ! command -v python3 >/dev/null; then
    echo "python3 is not here"
    exit 77
fi
plan=${TUTTI_BIN:?}/tutti-plan
bad=0
scripts/pictures.py --tutti-plan "$plan" --compare || bad=1

collective=''
while read -r line; do
    case $line in
    '### '*) collective=${line#'### '} ;;
    '| `'*)
        name=$(cut -d'`' -f2 <<<"$line")
        picture=pictures/algorithms/$collective-$name.svg
        grep -qF "(../$picture)" docs/reference/gallery.md || { echo "docs/reference/gallery.md: no $collective $name"; bad=1; }
        grep -rqF "(../../$picture)" docs/reference/algorithms || { echo "docs/reference/algorithms/: no page shows $picture"; bad=1; }
        ;;
    esac
done < <("$plan" list --markdown)
[[ $collective ]] || { echo "tutti-plan list --markdown says nothing"; bad=1; }

# The tables of docs/reference/algorithms.md are the list.
diff <(sed -n '/^## The list/,$p' docs/reference/algorithms.md | grep -E '^(\||###)') \
    <("$plan" list --markdown | grep -E '^(\||###)') || { echo "above: docs/reference/algorithms.md (<) is not the list (>)"; bad=1; }

too_large=$(find docs/pictures -name '*.svg' -size +40960c)
if [[ $too_large ]]; then
    echo "$too_large"
    echo "above: pictures of more than 40 KiB"
    bad=1
fi

# It can fail: a picture that is missing, one that is different, and one too many.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r docs examples bench "$work"
rm "$work/docs/pictures/algorithms/allreduce-ring.svg"
echo >>"$work/docs/pictures/primitives/gather.svg"
cp "$work/docs/pictures/primitives/gather.svg" "$work/docs/pictures/algorithms/gather-surprise.svg"
said=$(scripts/pictures.py --tutti-plan "$plan" --root "$work" --compare || true)
for words in 'allreduce-ring.svg: is not there' 'gather.svg: would be drawn differently' \
    'gather-surprise.svg: nothing has this picture'; do
    grep -qF "$words" <<<"$said" || { echo "this test does not work: '$words' is not in: $said"; bad=1; }
done
exit $bad
