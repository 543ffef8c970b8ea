import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { unique } from "../operations/bodies.ts";

/** The least that makes a definition, without its key: by kind. */
const LEAST: Record<string, Json> = {
  currency: {},
  segment: { kind: "STATIC" },
  reward: { kind: "PRIZE", fulfilment: "EXTERNAL" },
  badge: {},
  streak: { qualify: { parts: [{ metric: { eventTypes: ["done"], aggregate: "count" } }] } },
  quest: {
    steps: [
      {
        key: "act",
        name: "Act",
        kind: "EVENT",
        metric: { eventTypes: ["done"], aggregate: "count" },
        target: 1,
      },
    ],
  },
  adventure: {
    name: "An adventure",
    startsAt: "2026-01-01T00:00:00Z",
    endsAt: "2126-01-01T00:00:00Z",
    items: [{ questKey: "act", order: 1 }],
  },
  level: {},
  boost: { applies: "xp", factor: 2, startsAt: "2026-01-01T00:00:00Z", expiresAt: "2126-01-01T00:00:00Z" },
};

/** An optional field of each kind, with two values that differ from its default, if it has one. */
export const OPTIONAL_FIELD: Record<string, [field: string, value: unknown, other: unknown]> = {
  currency: ["maxBalance", 500, 600],
  segment: ["description", "Text", "Another"],
  reward: ["perPlayerLimit", 1, 2],
  badge: ["category", "start", "end"],
  streak: ["graceSeconds", 60, 120],
  quest: ["category", "start", "end"],
  adventure: ["season", "start", "end"],
  level: ["iconUrl", "https://example.com/a.png", "https://example.com/b.png"],
  boost: ["segmentKey", "players", "others"],
};

let level = 1;

/** The key of the next definition of a kind; levels are named by their number. */
export const definitionKey = (kind: string): string =>
  kind === "level" ? String((level = level >= 900 ? 2 : level + 1)) : unique(kind);

/** A document that makes a definition of a kind, with a key of its own. */
export const definitionDocument = (kind: string, more: Json = {}): { key: string; name: string } & Json => {
  const least = LEAST[kind];
  if (!least) throw new Error(`test/support/rules/definition-documents.ts does not know the kind ${kind}`);
  return { key: definitionKey(kind), name: `A ${kind}`, ...structuredClone(least), ...more };
};
