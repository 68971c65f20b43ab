# JSON text -> one line per leaf: its keys (and list positions, from 0), then its value, separated by tabs,
# which JSON text cannot contain in a string. Strings keep their escapes; what is empty is a leaf too.
# Exit status 1 for what is no JSON.
{ text = text $0 "\n" }
END {
    size = length(text)
    at = 1
    value("")
    skip()
    if (bad || at <= size) exit 1
}
function skip() {
    while (at <= size && index(" \t\r\n", substr(text, at, 1))) at++
}
function string(    start, c) {
    start = ++at
    while (at <= size) {
        c = substr(text, at, 1)
        if (c == "\\") at++
        else if (c == "\"") return substr(text, start, at++ - start)
        at++
    }
    bad = 1
}
function value(path,    c, key, position) {
    skip()
    c = substr(text, at, 1)
    if (c == "{" || c == "[") {
        at++
        position = 0
        for (skip(); substr(text, at, 1) != (c == "{" ? "}" : "]"); skip()) {
            if (bad || at > size) { bad = 1; return }
            key = position++
            if (c == "{") {
                key = string()
                skip()
                if (substr(text, at++, 1) != ":") { bad = 1; return }
            }
            value(path key "\t")
            skip()
            if (substr(text, at, 1) == ",") at++
        }
        if (position == 0) print path (c == "{" ? "{}" : "[]")
        at++
    } else if (c == "\"") {
        key = string()
        print path key
    } else if (match(substr(text, at, 40), /^[-+.0-9a-zA-Z]+/)) {
        key = substr(text, at, RLENGTH)
        at += RLENGTH
        print path key
    } else {
        bad = 1
    }
}
