"""The cluster: kubectl does the talking, JSON goes in and out."""
