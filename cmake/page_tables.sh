# ufp4 - what the scripts that measure and write tables into pages of docs/ share.
# SPDX-License-Identifier: Apache-2.0
# Sourced by bash.
# shellcheck shell=bash

# into PAGE NAME: standard input in place of what stands on PAGE between `<!-- NAME: ... -->` and `<!-- end of NAME -->`.
into() {
  local page=$1 name=$2 table new
  table=$(cat)
  if ! grep -q "^<!-- $name: " "$page" || ! grep -q "^<!-- end of $name -->" "$page"; then
    echo "ufp4: $page has no place for $name" >&2
    return 1
  fi
  new=$(NAME=$name TABLE=$table awk '
    index($0, "<!-- end of " ENVIRON["NAME"] " -->") == 1 { inside = 0; print ENVIRON["TABLE"] }
    !inside { print }
    index($0, "<!-- " ENVIRON["NAME"] ": ") == 1 { inside = 1 }' "$page") && printf '%s\n' "$new" >"$page"
}

# The processor in words. Where a virtual machine hides the model's name, family and model say which it is.
processor() {
  LC_ALL=C lscpu | awk -F': *' '
    /^Model name/ { name = $2 } /^CPU family/ { family = $2 } /^Model:/ { model = $2 } /^CPU\(s\)/ { threads = $2 }
    END { print name (family ? ", family " family " model " model : "") ", " threads " threads" }'
}
