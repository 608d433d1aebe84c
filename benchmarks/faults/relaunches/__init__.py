"""Programs that are relaunched with other sizes while somebody kills what belongs to them."""
