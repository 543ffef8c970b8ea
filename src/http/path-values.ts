import { z } from "zod";
import { Key } from "../domain/evaluation/language/syntax.ts";

const id = z.string().max(64);
const text = z.string();

/** What names in paths stand for; others are ids of at most 64 characters. */
export const PATH_VALUES = {
  sessionId: text,
  passkeyId: text,
  memberId: text,
  invitationId: text,
  projectId: text,
  keyId: text,
  userId: text,
  roomId: text,
  emailLogId: text,
  playerId: z.string().max(300).meta({ description: "The player's UUID, or ext: and the externalUserId" }),
  leaderboardId: z.string().min(1).max(64).meta({ description: "The leaderboard's UUID or key" }),
  ruleId: id.meta({ description: "The rule's UUID or its key", example: "weekend-double" }),
  questId: id.meta({ description: "The quest's UUID or its key", example: "first-week" }),
  adventureId: id.meta({ description: "The adventure's UUID or its key", example: "winter" }),
  stepKey: id.meta({ description: "The key of the step" }),
  streakKey: id.meta({ description: "The key of the streak" }),
  badgeId: id.meta({ description: "The UUID or the key of the badge" }),
  rewardId: id.meta({ description: "The UUID or the key of the reward" }),
  segmentId: id.meta({ description: "The UUID or the key of the segment" }),
  currencyId: id.meta({ description: "The UUID or the key of the currency" }),
  streakId: id.meta({ description: "The UUID or the key of the streak" }),
  levelId: id.meta({ description: "The UUID or the key of the level" }),
  boostId: id.meta({ description: "The UUID or the key of the boost" }),
  channelId: z.string().min(1).max(64).meta({ description: "The channel's UUID or its key, such as global" }),
  seq: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  emoji: z.string().min(1).max(64),
  provider: z.string().meta({ description: "google or github", example: "google" }),
  currencyKey: Key,
  key: Key,
};

type Names<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Names<Rest>
  : never;

/** What a path's names stand for. */
export type PathValues<Path extends string> = {
  [Name in Names<Path>]: Name extends keyof typeof PATH_VALUES
    ? z.output<(typeof PATH_VALUES)[Name]>
    : string;
};

/** Returns the schema of what a path names; undefined for one that names nothing. */
export const pathParams = (path: string): z.ZodObject | undefined => {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  if (names.length === 0) return undefined;
  const known: Readonly<Record<string, z.ZodType>> = PATH_VALUES;
  return z.object(Object.fromEntries(names.map((name) => [name, known[name] ?? id])));
};
