# still_idle FILE DAEMONS NAMESPACES: FILE is the workload probe's answer, framed; words of the other two don't count as
# work. Ends the script with status 75 when work has begun since the host was read, or can no longer be told.
still_idle() {
    _work=$(awk -v daemons="$2" -v own="$3" '
        BEGIN {
            split(daemons, list, " "); for (i in list) skip[list[i]]
            split(own, names, " "); for (i in names) node[names[i]]
        }
        NR == 1 {if ($1 != "@probe" || $3 != 0) {print "what runs can no longer be told"; exit}; next}
        $1 == "process" {name = $0; sub(/^process [0-9]+ /, "", name); if (!(name in skip)) print $0}
        $1 == "container" {split($4, of, "/"); if (of[1] != "sandbox" && !(of[2] in node)) print "container " $2 "/" $3}
        END {if (NR == 0) print "what runs can no longer be told"}' "$1")
    [ -z "$_work" ] || { printf '%s\n' "$_work" >&2; exit 75; }
}
