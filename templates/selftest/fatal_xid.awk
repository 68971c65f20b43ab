# NVRM: Xid lines of one boot, oldest first -> one line for each card that must not be used.
#
# Fatal are the numbers for which NVIDIA's Xid catalogue (Ampere and later, 2025-10) names a reset of the GPU,
# a reboot or a service of the hardware as the immediate action, and 48 (double-bit ECC error). 74 and 144 to
# 150 depend on subcodes that changed their meaning with R575: for them Xid 154, the driver's own verdict,
# decides. The last 154 of a card overrules everything that its log says before it.
BEGIN {
    count = split("46 48 54 62 64 79 95 109 110 119 120 136 140 143 155 156 158", numbers, " ")
    for (i = 1; i <= count; i++) fatal[numbers[i]] = 1
}
match($0, /NVRM: Xid \([^)]*\): [0-9]+/) {
    line = substr($0, RSTART)
    card = line
    sub(/^NVRM: Xid \((PCI:)?/, "", card)
    sub(/[ )].*/, "", card)
    sub(/\.[0-7]$/, "", card)
    message = line
    sub(/^[^)]*\): /, "", message)
    xid = message + 0
    if (xid == 154) {
        # "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"
        if (message ~ /to 0x0 \(None\)/) delete verdict[card]
        else if (message ~ /to 0x[0-9a-fA-F]+ \((GPU Reset Required|Node Reboot Required|Drain P2P|Drain and Reset)\)/)
            verdict[card] = message
    } else if (xid in fatal) {
        verdict[card] = message
    }
}
END {
    for (card in verdict) printf "%s: Xid %s\n", card, substr(verdict[card], 1, 200)
}
