import { randomUUID } from "node:crypto";

/** A name that nothing else has. */
export const unique = (prefix: string): string => `${prefix}-${randomUUID().slice(0, 13)}`;

export const ruleDocument = () => ({
  key: unique("rule"),
  name: "A rule",
  description: "Text",
  tags: ["a"],
  priority: 5,
  triggers: [{ kind: "EVENT", eventTypes: ["swept"] }],
  conditions: {
    all: [
      { type: "event_property", path: "a.b", op: "not_in", value: ["x"] },
      { any: [{ type: "player_property", field: "attributes.c", op: "not_exists" }] },
      {
        none: [{ type: "time_window", timezone: "UTC", dates: { from: "2026-01-01", until: "2026-01-02" } }],
      },
    ],
  },
  limits: { perPlayer: [{ max: 5, window: { rollingSeconds: 60 } }], cooldownSeconds: 1 },
  schedule: { activeFrom: "2026-01-01T00:00:00Z", activeUntil: "2126-01-01T00:00:00Z" },
  stopOnMatch: false,
  exclusiveGroup: "g",
  actions: [
    {
      type: "grant_xp",
      amount: { op: "add", args: [1, { ref: "player.level", default: 1 }] },
      rounding: "FLOOR",
    },
    { type: "update_player", set: { "d.e": 1 }, increment: { f: 1 }, unset: ["g"], addTags: ["h"] },
  ],
});

/** Attributes, comparisons, expressions and sums of what events say. */
export const listeningRule = {
  key: "listens",
  name: "Listens",
  triggers: [{ kind: "EVENT", eventTypes: ["*"] }],
  conditions: {
    any: [
      { type: "event_property", path: "v", op: "gt", value: { $ref: "player.xp" } },
      { type: "event_property", path: "v", op: "exists" },
    ],
  },
  actions: [
    { type: "grant_xp", amount: { op: "mul", args: [{ $ref: "event.properties.v" }, 3] } },
    { type: "update_player", set: { last: { $ref: "event.properties.v" } }, increment: { n: 1 } },
  ],
};

export const smallRule = () => {
  const { key, name, triggers, actions } = ruleDocument();
  return { key, name, triggers, actions };
};

export const boardDefinition = () => ({
  key: unique("board"),
  name: "A board",
  description: "Text",
  metric: { source: "CUSTOM" },
  operator: "BEST",
  sort: "DESC",
  scoreDecimals: 2,
  ties: "SHARED",
  displayLimit: 100,
  period: { kind: "ALL_TIME", timezone: "UTC" },
});
/** Of an EVENT board, for sweeps over its metric. */
export const eventMetric = {
  source: "EVENT",
  event: { eventTypes: ["swept"], filter: { path: "a", op: "eq", value: 1 } },
  aggregate: "sum",
  property: "v",
};
export const projectFields = {
  description: "New",
  timezone: "Europe/Berlin",
  settings: { autoCreatePlayers: true, maxEventAgeDays: null, allowLevelDown: false },
};
export const curve = { type: "LINEAR", params: { base: 100, maxLevel: 10 } };
export const table = { type: "TABLE", params: { thresholds: [0, 10, 20] } };
export const exponential = {
  type: "EXPONENTIAL",
  params: { base: 10, ratio: 1.5, roundTo: 5, maxLevel: 20 },
};
export const quadratic = { type: "QUADRATIC", params: { base: 10, growth: 5, maxLevel: 20 } };

export const event = (more: object = {}) => ({
  externalUserId: unique("user"),
  eventType: "swept",
  properties: { v: 1, a: { b: ["x"] } },
  timestamp: new Date().toISOString(),
  idempotencyKey: randomUUID(),
  ...more,
});
export const profile = {
  displayName: "Ada",
  avatarUrl: "https://example.com/ada.png",
  timezone: "Asia/Kolkata",
  locale: "en-IN",
  country: "IN",
  attributes: { city: "Pune", more: { deep: 1 } },
  metadata: { note: { any: ["thing"] } },
};

export const apiKey = () => ({
  name: "A key",
  scopes: ["events:write", "players:*"],
  environment: "live",
  rateLimit: 100,
  expiresAt: "2126-01-01T00:00:00Z",
  metadata: { a: { b: 1 } },
});

/** Of a webhook at a port where nobody answers, for events that the sweeps do not make. */
export const webhookBody = () => ({
  url: `http://127.0.0.1:9/hooks/${randomUUID()}`,
  events: ["custom.swept", "event.failed"],
  description: "Swept",
});
