import { createReadStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { createGunzip } from "node:zlib";
import { type Client, must } from "../http/client.ts";

const TRAVEL = new URL("../../../../shared/data/travel-se-2011-2014.ndjson.gz", import.meta.url).pathname;

export const hasTravelData = existsSync(TRAVEL);

/** A line of the file, which is an event as the batch endpoint takes it. */
export type Line = {
  externalUserId: string;
  eventType: string;
  properties: Record<string, unknown>;
  timestamp: string;
  idempotencyKey: string;
};

/** The events before a date, in the order of the file. */
export const travelLines = async (until: string): Promise<Line[]> => {
  const lines: Line[] = [];
  for await (const text of createInterface({ input: createReadStream(TRAVEL).pipe(createGunzip()) })) {
    const line = JSON.parse(text) as Line;
    if (line.timestamp >= until) break;
    lines.push(line);
  }
  return lines;
};

export const PROJECT_ZONE = "Europe/Berlin";
const ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe"] as const;

/** The zone of a player: a third of them live in each. */
export const zoneOf = (player: string): string => ZONES[Number(player.slice(1)) % ZONES.length]!;

/** XP of one event; comments count at most 20 a day. */
export const XP = { question_asked: 5, answer_posted: 10, comment_posted: 1 } as const;
export const BADGE_XP = { gold: 100, silver: 30, bronze: 5 } as const;
export const COMMENTS_A_DAY = 20;

const rule = (key: string, eventType: string, amount: number, more: object = {}) => ({
  key,
  name: key,
  triggers: [{ kind: "EVENT", eventTypes: [eventType] }],
  actions: [{ type: "grant_xp", amount }],
  ...more,
});

const POSTS = ["question_asked", "answer_posted", "comment_posted"];
const count = (eventTypes: readonly string[]) => ({ eventTypes, aggregate: "count" });

/** What counts for a streak: any post; a question or answer; a week in which 5 comments scored something. */
export const STREAKS = [
  { key: "daily", period: "DAY", qualify: { parts: [{ metric: count(POSTS) }] } },
  {
    key: "daily-project",
    period: "DAY",
    timezonePolicy: "PROJECT",
    qualify: { parts: [{ metric: count(POSTS) }] },
  },
  {
    key: "daily-frozen",
    period: "DAY",
    freeze: { initial: 1, max: 3, autoEarnEvery: 5 },
    qualify: { parts: [{ metric: count(POSTS) }] },
  },
  { key: "weekly", period: "WEEK", qualify: { parts: [{ metric: count(POSTS.slice(0, 2)) }] } },
  {
    key: "weekly-five",
    period: "WEEK",
    qualify: {
      parts: [
        {
          metric: {
            eventTypes: ["comment_posted"],
            filter: { path: "score", op: "gte", value: 1 },
            aggregate: "count",
          },
          threshold: 5,
        },
      ],
    },
  },
  {
    key: "monthly",
    period: "MONTH",
    timezonePolicy: "PROJECT",
    qualify: { parts: [{ metric: count(POSTS) }] },
  },
];

/** Badges whose progress is a counter of each player. */
export const COUNTERS = [
  { key: "comments", progressMetric: count(["comment_posted"]), threshold: 50 },
  { key: "answers", progressMetric: count(["answer_posted"]), threshold: 25 },
  {
    key: "score",
    progressMetric: { eventTypes: ["question_asked", "answer_posted"], aggregate: "sum", property: "score" },
    threshold: 100,
  },
  {
    key: "kinds",
    progressMetric: { eventTypes: ["badge_earned"], aggregate: "distinct", property: "badge" },
    threshold: 10,
  },
];

/** Defines it all over REST. */
export const defineTravel = async (api: Client, key: string): Promise<void> => {
  const rules = [
    rule("question", "question_asked", XP.question_asked),
    rule("answer", "answer_posted", XP.answer_posted),
    rule("comment", "comment_posted", XP.comment_posted, {
      limits: { perPlayer: [{ max: COMMENTS_A_DAY, window: "DAY" }] },
    }),
    ...Object.entries(BADGE_XP).map(([tier, amount]) =>
      rule(tier, "badge_earned", amount, {
        conditions: { all: [{ type: "event_property", path: "tier", op: "eq", value: tier }] },
      }),
    ),
  ];
  for (const one of rules) {
    const { id } = must(await api.post("/api/v1/rules", one, { key }), 201);
    must(await api.post(`/api/v1/rules/${id}/publish`, {}, { key }), 200);
  }
  for (const streak of STREAKS)
    must(await api.post("/api/v1/streaks", { name: streak.key, ...streak }, { key }), 201);
  for (const { key: badge, progressMetric, threshold } of COUNTERS) {
    const body = { key: badge, name: badge, progressMetric, tiers: [{ tier: 1, threshold }] };
    must(await api.post("/api/v1/badges", body, { key }), 201);
  }
};
