// What colours mean: one thing at a time, and never colour alone: a letter stands in each part, and
// from the ninth name on a pattern lies over it.

const COLORS = 8;
const PATTERNS = ["", "stripes", "dots", "bars"];
const USES = [
  { key: "idle", label: "uses to 5 % of its cores", letter: "i", most: 0.05 },
  { key: "low", label: "to 30 %", letter: "l", most: 0.3 },
  { key: "mid", label: "to 70 %", letter: "m", most: 0.7 },
  { key: "high", label: "above 70 %", letter: "h", most: Infinity },
];

export const OTHER = { key: "\u0000other", label: "others' pods", letter: "", color: "other", pattern: "" };

const UNKNOWN = { key: "\u0000unknown", label: "not measured", letter: "?", color: "other", pattern: "" };

/** Letters that tell names apart: the first that is free, or the first with a number. */
function letters(names) {
  const taken = new Set();
  return names.map((name) => {
    const candidates = [...name.replace(/[^a-z0-9]/gi, "")].map((c) => c.toUpperCase());
    let letter = candidates.find((c) => !taken.has(c));
    for (let n = 2; !letter; n += 1) {
      const numbered = `${candidates[0] ?? "X"}${n}`;
      if (!taken.has(numbered)) letter = numbered;
    }
    taken.add(letter);
    return letter;
  });
}

/** The meaning of colours for `by`, from all nodes: `of(share, use)` gives the entry of a share. */
export function scheme(by, nodes) {
  if (by === "use") {
    const entries = USES.map((use, n) => ({ ...use, color: `u${n}`, pattern: "" }));
    return {
      entries: [...entries, UNKNOWN],
      of: (share, use) => {
        if (!share.pod) return OTHER;
        if (!use) return UNKNOWN;
        return entries.find((entry) => use[1] / (share.cores || 100) <= entry.most);
      },
    };
  }
  const names = new Set();
  for (const node of nodes) {
    for (const card of node.cards) {
      for (const share of card.shares) {
        if (share.pod) names.add(by === "dialect" ? share.dialects[0] : share.namespace);
      }
    }
  }
  const sorted = [...names].sort();
  const given = letters(sorted);
  const entries = sorted.map((name, n) => ({
    key: name, label: name, letter: given[n], color: `c${n % COLORS}`,
    pattern: PATTERNS[Math.floor(n / COLORS) % PATTERNS.length],
  }));
  const known = new Map(entries.map((entry) => [entry.key, entry]));
  return {
    entries,
    of: (share) => (share.pod ? known.get(by === "dialect" ? share.dialects[0] : share.namespace) ?? OTHER : OTHER),
  };
}
