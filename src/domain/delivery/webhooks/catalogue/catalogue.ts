import { z } from "zod";
import { chatTypes, type EntriesOf, type Entry, lobbyTypes, playerTypes, ruleTypes } from "./entries.ts";
import { CauseShape, Data, Id, PLAYER, Text, Time } from "./shapes.ts";
import { exampleOf } from "../../../kernel/example.ts";
import type { EventType } from "../../../kernel/events/domain-events.ts";
import { NOISY_TYPES, SENT_EVENT_TYPES } from "../../../kernel/events/event-types.ts";
import type { CustomData, Json } from "../../../kernel/events/events.ts";

type AdventureType = Exclude<Extract<EventType, `adventure.${string}`>, "adventure.updated">;

const subject = { ...PLAYER, adventureKey: Text };

const adventureTypes: EntriesOf<AdventureType> = {
  "adventure.started": {
    occurs: "a player joined an adventure",
    data: z.object({
      ...subject,
      adventureId: Id,
      season: Text.nullable(),
      endsAt: Time,
      startedAt: Time,
    }),
  },
  "adventure.quest_unlocked": {
    occurs: "a quest of an adventure was unlocked for a player",
    data: z.object({ ...subject, questKey: Text }),
  },
  "adventure.tier_reached": {
    occurs: "a player reached a tier of an adventure",
    data: z.object({
      ...subject,
      tier: z.int(),
      points: z.int(),
      premium: z.boolean().meta({ description: "Whether the player has premium" }),
    }),
  },
  "adventure.completed": {
    occurs: "a player completed an adventure",
    data: z.object({
      ...subject,
      adventureId: Id,
      season: Text.nullable(),
      points: z.int(),
      questsCompleted: z.int(),
      rewards: Data,
      claimRequired: z.boolean(),
      completedAt: Time,
    }),
  },
  "adventure.claimed": {
    occurs: "rewards of an adventure, or of a tier of it, were granted",
    data: z.object({
      ...subject,
      tier: z.int().nullable().meta({ description: "Null for the rewards of the whole adventure" }),
      track: z.enum(["FREE", "PREMIUM"]).nullable(),
      rewards: Data,
    }),
  },
};

const CUSTOM = "custom.";
const CUSTOM_PATTERN = /^custom\.(\*|[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}(\.\*)?)$/;
/** Names that rules may give to events that they emit. */
const CUSTOM_TYPE_PATTERN = /^custom\.[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$/;

/** Whether rules can emit events of the type. */
const isCustomType = (type: string): boolean => CUSTOM_TYPE_PATTERN.test(type);

/** Every type of the service's own that webhooks can receive. */
export const WEBHOOK_TYPES: readonly string[] = [...SENT_EVENT_TYPES];

/** Whether events of the type go to webhooks and into the feed, if anybody subscribes. */
export const isWebhookType = (type: string): boolean => SENT_EVENT_TYPES.has(type) || type.startsWith(CUSTOM);

/**
 * Whether a subscription covers a type. A pattern is a type, `prefix.*` for those that begin with `prefix.`,
 * or `*` for all but NOISY_TYPES.
 */
export const isSubscribed = (patterns: readonly string[], type: string): boolean =>
  patterns.some((pattern) => {
    if (pattern === "*") return !NOISY_TYPES.has(type);
    return pattern.endsWith(".*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type;
  });

/** Types by name, by the beginning of the name and, if given, all that are not in `except`. */
type Types = { names: string[]; prefixes: string[]; except?: string[] };

/** Returns the types that subscriptions cover, as `isSubscribed` decides. */
export const typesOf = (patterns: readonly string[]): Types => ({
  names: patterns.filter((pattern) => !pattern.endsWith("*")),
  prefixes: patterns.filter((pattern) => pattern.endsWith(".*")).map((pattern) => pattern.slice(0, -1)),
  ...(patterns.includes("*") ? { except: [...NOISY_TYPES] } : {}),
});

/** Whether a subscription may name it: an existing type, one of the integrator's own, or a group of them. */
export const isPattern = (pattern: string): boolean => {
  if (pattern === "*") return true;
  if (pattern.startsWith(CUSTOM)) return CUSTOM_PATTERN.test(pattern);
  if (pattern.endsWith(".*")) return WEBHOOK_TYPES.some((type) => type.startsWith(pattern.slice(0, -1)));
  return WEBHOOK_TYPES.includes(pattern);
};

/** An event as sent to webhooks. */
export type WebhookEvent = { id: string; type: string; projectId: string; createdAt: string; data: Json };

type BoardType = Exclude<
  Extract<EventType, `leaderboard.${string}`>,
  "leaderboard.entries_changed" | "leaderboard.changed"
>;

const LIST = {
  leaderboardKey: Text,
  leaderboardId: Id,
  periodKey: Text.meta({ description: "Such as 2026-W02, or ALL_TIME" }),
  board: Text.meta({ description: "The value of the breakdown; empty without one" }),
};

const leaderboardTypes: EntriesOf<BoardType> = {
  "leaderboard.rank_changed": {
    occurs:
      "a player's rank changed significantly: into or out of the first 10, or by 10 places or a tenth of " +
      "the board; at most once a minute",
    data: z.object({
      ...PLAYER,
      ...LIST,
      previousRank: z.int().nullable(),
      newRank: z.int(),
      direction: z.enum(["UP", "DOWN", "NEW"]),
      score: z.number(),
      crossed: z.array(z.int()),
      participants: z.int(),
      reason: z.enum(["BAND", "DELTA", "ENTERED"]),
    }),
  },
  "leaderboard.new_leader": {
    occurs: "a leaderboard has a new first place",
    data: z.object({
      ...LIST,
      leader: z.object({ ...PLAYER, displayName: Text.nullable(), score: z.number() }),
      previousLeader: z.object({ ...PLAYER, score: z.number() }).nullable(),
      margin: z.number().nullable(),
    }),
  },
  "leaderboard.period_started": {
    occurs: "a period of a leaderboard began",
    data: z.object({ ...LIST, startsAt: Time.nullable(), endsAt: Time.nullable() }),
  },
  "leaderboard.period_closed": {
    occurs: "a period of a leaderboard was closed: its results are final",
    data: z.object({
      ...LIST,
      participants: z.int(),
      top: z.array(z.object({ ...PLAYER, displayName: Text.nullable(), rank: z.int(), score: z.number() })),
      prizesGranted: z.int(),
      promoted: z.int(),
      relegated: z.int(),
      closedAt: Time,
    }),
  },
  "leaderboard.values_ranked": {
    occurs:
      "a period of a leaderboard with a breakdown was closed for all of its values: their order is final",
    data: z.object({
      leaderboardKey: LIST.leaderboardKey,
      leaderboardId: LIST.leaderboardId,
      periodKey: LIST.periodKey,
      by: z.enum(["total", "best"]).meta({ description: "What they are ranked by" }),
      values: z.int().meta({ description: "How many there are" }),
      top: z
        .array(
          z.object({
            rank: z.int(),
            value: Text,
            players: z.int(),
            total: z.number(),
            average: z.number(),
            best: z.number(),
          }),
        )
        .meta({ description: "The first ten" }),
      closedAt: Time,
    }),
  },
  "leaderboard.score_held": {
    occurs: "a submitted score broke a bound and waits for a review",
    data: z.object({ ...PLAYER, ...LIST, score: z.number(), violation: Text, reviewId: Id }),
  },
};

type QuestType = Exclude<Extract<EventType, `quest.${string}`>, "quest.updated">;

const questSubject = { ...PLAYER, playerQuestId: Id, questKey: Text, cycleKey: Text };
const decided = {
  ...questSubject,
  questId: Id,
  stepKey: Text,
  submissionId: Id.meta({ description: "As in `GET /quest-reviews`" }),
  note: Text.nullable().meta({ description: "What the reviewer has written for the player" }),
};
const percent = z.int().meta({ description: "0 to 100" });

const questTypes: EntriesOf<QuestType> = {
  "quest.started": {
    occurs: "a player started a quest, or it started by itself",
    data: z.object({
      ...questSubject,
      questId: Id,
      questVersion: z.int(),
      startedBy: z.enum(["AUTO", "PLAYER", "API", "RULE"]),
      expiresAt: Time.nullable(),
      startedAt: Time,
    }),
  },
  "quest.progress": {
    occurs: "the percent of a quest changed; once for each quest and event",
    data: z.object({
      ...questSubject,
      percent,
      previousPercent: percent,
      steps: z.array(
        z.object({
          stepKey: Text,
          value: z.number(),
          target: z.number(),
          done: z.boolean(),
          justCompleted: z.boolean(),
        }),
      ),
    }),
  },
  "quest.step_completed": {
    occurs: "a step of a quest was done",
    data: z.object({ ...questSubject, stepKey: Text, rewards: Data.nullable() }),
  },
  "quest.completed": {
    occurs: "a quest was completed",
    data: z.object({
      ...questSubject,
      questId: Id,
      questVersion: z.int(),
      completions: z.int().meta({ description: "Of the player, this one included" }),
      durationSeconds: z.int(),
      rewards: Data,
      claimRequired: z.boolean(),
      claimUntil: Time.nullable(),
      completedAt: Time,
    }),
  },
  "quest.claimed": {
    occurs: "the rewards of a quest were granted",
    data: z.object({ ...questSubject, rewards: Data }),
  },
  "quest.expired": {
    occurs: "the time of a quest, or to claim its rewards, was over",
    data: z.object({ ...questSubject, percent }),
  },
  "quest.approval_requested": {
    occurs: "a player submitted a step that somebody has to approve",
    data: z.object({
      ...questSubject,
      questId: Id,
      stepKey: Text,
      submissionId: Id.meta({ description: "As in `GET /quest-reviews`" }),
      evidenceType: z.enum(["TEXT", "URL"]).nullable(),
      evidence: Text.nullable().meta({ description: "What the player has written: show it as text" }),
    }),
  },
  "quest.submission_approved": {
    occurs: "somebody approved what a player had submitted; the player is told too",
    data: z.object(decided),
  },
  "quest.submission_rejected": {
    occurs: "somebody rejected what a player had submitted; the player is told too, and may submit again",
    data: z.object(decided),
  },
  "quest.failed": {
    occurs: "a quest failed",
    data: z.object({ ...questSubject, cause: CauseShape }),
  },
};

type ReportType = Extract<EventType, `report.${string}`>;

const RUN = { reportId: Id, runId: Id, name: Text, report: Text, dueAt: Time };

const reportTypes: EntriesOf<ReportType> = {
  "report.ready": {
    occurs: "a saved report was run, and its answer can be read at resultUrl for a week",
    data: z.object({
      ...RUN,
      range: z
        .object({ from: z.iso.date(), to: z.iso.date(), timezone: Text })
        .meta({ description: "Local dates of the zone, both included" }),
      resultUrl: Text.meta({ description: "Needs a key or an access token that may read analytics" }),
    }),
  },
  "report.failed": {
    occurs: "a run of a saved report was given up",
    data: z.object({ ...RUN, error: Text }),
  },
};

/** A type's entry in the catalogue. */
type EventTypeInfo = {
  type: string;
  /** When it is sent. */
  occurs: string;
  /** Whether `*` covers it; other types are frequent and must be named. */
  isInWildcard: boolean;
  /** false: the service does not emit such events yet. */
  isAvailable: boolean;
  /** JSON Schema of the whole payload; null while it is not available. */
  schema: Json | null;
  /** A payload as it may be; null while it is not available. */
  example: WebhookEvent | null;
};

/** Stands for the types of events that rules emit. */
export const CUSTOM_TYPE = "custom.*";

const customType: Entry<CustomData> = {
  occurs: "a rule emitted an event of your own for webhooks; its type is `custom.` and your name for it",
  data: z.object({ ...PLAYER, eventType: Text, properties: Data, cause: CauseShape }),
};

const ENTRIES: Readonly<Record<string, Entry>> = {
  ...playerTypes,
  ...questTypes,
  ...adventureTypes,
  ...leaderboardTypes,
  ...lobbyTypes,
  ...chatTypes,
  ...ruleTypes,
  ...reportTypes,
  [CUSTOM_TYPE]: customType,
};

/** Returns the schema of events of an available type; undefined for others. */
export const shapeOf = (type: string): z.ZodType | undefined => {
  const entry = ENTRIES[type.startsWith("custom.") ? CUSTOM_TYPE : type];
  if (!entry) return undefined;
  const literal = type === CUSTOM_TYPE ? z.string().regex(/^custom\./) : z.literal(type);
  return z.object({
    id: z.uuid().meta({ description: "The same on each attempt: drop what you have seen" }),
    type: literal,
    projectId: z.uuid(),
    createdAt: z.iso.datetime().meta({ description: "When it was committed" }),
    data: entry.data,
  });
};

/**
 * Open: tests add `test`, and shortened events `truncated`; receivers must accept later additions. Where
 * there is a format, its pattern only makes the document long.
 */
const publishedSchema = (shape: z.ZodType): Json =>
  z.toJSONSchema(shape, {
    io: "input",
    override: ({ jsonSchema }) => {
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });

const infoOf = (type: string): EventTypeInfo => {
  const shape = shapeOf(type);
  const schema = shape ? publishedSchema(shape) : null;
  return {
    type,
    occurs: ENTRIES[type]?.occurs ?? "not available yet",
    isInWildcard: !NOISY_TYPES.has(type),
    isAvailable: shape !== undefined,
    schema,
    example: schema ? (exampleOf(schema, {}, { type }) as WebhookEvent) : null,
  };
};

let catalogue: readonly EventTypeInfo[] | undefined;

/** Returns every type that can be subscribed to, in the order of the specification's list and then ours. */
export const eventTypes = (): readonly EventTypeInfo[] => {
  catalogue ??= [...WEBHOOK_TYPES, CUSTOM_TYPE].map(infoOf);
  return catalogue;
};

/** Type of a test whose caller names none. */
export const TEST_TYPE = "webhook.test";

/** Returns sample data of a type from its example; undefined for a type without any. */
export const sampleOf = (type: string): Json | undefined => {
  if (type === TEST_TYPE) return { message: "This is a test. Nothing has happened." };
  const data = eventTypes().find((info) => info.type === (isCustomType(type) ? CUSTOM_TYPE : type))?.example
    ?.data;
  if (isCustomType(type)) return { ...data, eventType: type.slice("custom.".length) };
  return type === CUSTOM_TYPE ? undefined : data;
};
