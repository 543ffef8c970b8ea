import { z } from "zod";

const Amounts = z.enum(["SUM", "MAX", "KEEP_TARGET"]).default("SUM");

/** How the state of two players is combined; see docs and `mergePlayers`. */
export const MergeStrategy = z.object({
  xp: Amounts,
  currencies: Amounts,
  leaderboards: z
    .enum(["BY_OPERATOR", "KEEP_TARGET"])
    .default("BY_OPERATOR")
    .meta({ description: "BY_OPERATOR: BEST takes the better score, SUM the sum, LATEST the later one" }),
  profile: z.enum(["TARGET_WINS", "SOURCE_WINS"]).default("TARGET_WINS").meta({
    description: "Where both have a value: of names, attributes and metadata. Tags are those of both",
  }),
});
export type MergeStrategy = z.output<typeof MergeStrategy>;

export const DEFAULT_STRATEGY = MergeStrategy.parse({});

export const CAUSE_KINDS = [
  "EVENT",
  "RULE",
  "BADGE",
  "STREAK",
  "QUEST",
  "ADVENTURE",
  "LEVEL",
  "LEADERBOARD",
  "REWARD",
  "API",
  "ADMIN",
  "MERGE",
  "REVERSAL",
  "EXPIRY",
] as const;

/** The cause of a change. Part of ledger entries, domain events and live messages. */
export const CauseShape = z
  .object({
    kind: z.enum(CAUSE_KINDS),
    eventId: z.uuid().exactOptional(),
    rootEventId: z.uuid().exactOptional(),
    ruleId: z.uuid().exactOptional(),
    ruleKey: z.string().exactOptional(),
    ruleVersion: z.int().exactOptional(),
    actionId: z.string().exactOptional(),
    /** Key of the badge, streak, quest, adventure or reward. */
    refKey: z.string().exactOptional(),
    refId: z.string().exactOptional(),
    actor: z.string().exactOptional(),
    note: z.string().exactOptional(),
  })
  .meta({ description: "Why it happened" });
export type Cause = z.output<typeof CauseShape>;

/** What is asked of causes: a kind, a rule, or both; nothing where both are undefined. */
export type CauseAsked = { cause?: Cause["kind"] | undefined; ruleId?: string | undefined };

/** Returns the part that causes have in common which match, in JSON; null for any. */
export const causePart = ({ cause, ruleId }: CauseAsked): string | null =>
  cause === undefined && ruleId === undefined ? null : JSON.stringify({ kind: cause, ruleId });

export type Json = Record<string, unknown>;
export type PlayerRef = { playerId: string; externalUserId: string };

/**
 * [playerId, rankScore, rankTie, version, isHidden]: absolute values, so applying one twice or late is
 * harmless. A hidden entry has no rank.
 */
export type EntryChange = [
  playerId: string,
  rankScore: number,
  rankTie: number,
  version: number,
  isHidden?: boolean,
];

/**
 * Returns the type under which an event emitted by a rule goes to webhooks and the live stream: an
 * integrator's own name can never be mistaken for one of the service's.
 */
export const customType = (eventType: string): `custom.${string}` => `custom.${eventType}`;
export type CustomData = PlayerRef & { eventType: string; properties: Json; cause: Cause };
