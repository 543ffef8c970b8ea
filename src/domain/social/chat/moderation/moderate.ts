import { type RawBuilder, sql } from "kysely";
import { DomainError, forbidden, invalid } from "../../../kernel/errors.ts";
import type {
  ChannelSettings,
  ChatActor,
  ChatChannel,
  ChatRole,
  SanctionKind,
} from "../../../kernel/events/social-views.ts";
import type { Work } from "../../../kernel/work.ts";
import { findForeignLink, findLinks, mask, screenWords, type WordMatch } from "./built-in-words.ts";
import type { WordFilter } from "./word-filter.ts";

/** A sanction in force; of one channel, or of all with null. */
export type ActiveSanction = {
  id: string;
  kind: SanctionKind;
  channelId: string | null;
  reason: string;
  expiresAt: Date | null;
};

/** Inputs of a verdict besides the text; all of them are read before, in the send's transaction. */
export type ModerationContext = {
  now: Date;
  channel: Pick<ChatChannel, "id" | "kind" | "status" | "settings"> & {
    /** When players lose the right to send: in the channel of a closed lobby. */
    readOnlyAt: Date | null;
  };
  sender: {
    kind: ChatActor["kind"];
    /** MEMBER for non-members. */
    role: ChatRole;
    /** A key with `chat:moderate` or a console user. */
    isModerator: boolean;
    /** Of a player; 0 and now for others. */
    level: number;
    createdAt: Date;
  };
  /** Of the sender: the result of `findSanctions` for them and this channel. */
  sanctions: readonly ActiveSanction[];
  /** Result of `readFilter`. */
  filter: WordFilter;
};

export type Verdict =
  | {
      outcome: "VISIBLE" | "MASKED" | "HELD";
      /** The text for other readers, for HELD once it is restored. */
      content: string;
      /** Reasons, such as `word:slurs`; empty for VISIBLE. */
      flags: string[];
      /** Whether it is accepted, but shown only to its sender. */
      isShadowed: boolean;
    }
  | { error: DomainError };

/**
 * What the word lists make of a text. It can be made before the text's transaction, to spend its CPU while no
 * channel is locked; it holds for this filter, setting and text only.
 */
export type Screening = {
  filter: WordFilter;
  profanity: ChannelSettings["profanity"];
  text: string;
  verdict: Omit<Exclude<Verdict, { error: DomainError }>, "isShadowed"> | { error: DomainError };
};

const restricted = (message: string): DomainError => forbidden("CHANNEL_RESTRICTED", message);

const until = ({ expiresAt, reason }: ActiveSanction): string =>
  `${expiresAt === null ? "for good" : `until ${expiresAt.toISOString()}`}: ${reason}`;

/** Returns the one of several that lasts longest. */
const longest = (sanctions: readonly ActiveSanction[], kind: SanctionKind): ActiveSanction | undefined => {
  const endOf = ({ expiresAt }: ActiveSanction): number => expiresAt?.getTime() ?? Number.POSITIVE_INFINITY;
  const [first] = sanctions
    .filter((one) => one.kind === kind)
    .toSorted((one, other) => (endOf(one) < endOf(other) ? 1 : -1));
  return first;
};

const ofSanctions = ({ sanctions, now }: ModerationContext): DomainError | undefined => {
  const ban = longest(sanctions, "BAN");
  if (ban) return forbidden("PLAYER_BANNED", `the player is banned ${until(ban)}`);
  const mute = longest(sanctions, "MUTE");
  if (!mute) return undefined;
  const leftMs = mute.expiresAt === null ? undefined : mute.expiresAt.getTime() - now.getTime();
  return new DomainError("FORBIDDEN", `the player is muted ${until(mute)}`, {
    reason: "PLAYER_MUTED",
    ...(leftMs === undefined ? {} : { retryAfterSeconds: Math.max(1, Math.ceil(leftMs / 1_000)) }),
  });
};

const ofChannel = ({ channel, sender, now }: ModerationContext): DomainError | undefined => {
  const { status, settings, readOnlyAt } = channel;
  if (status === "ARCHIVED") return restricted("the channel is archived");
  // Servers and console users may send where players only read.
  if (sender.kind !== "PLAYER") return undefined;
  if (readOnlyAt !== null && readOnlyAt <= now) return restricted("the channel is closed");
  if (sender.isModerator || sender.role !== "MEMBER") return undefined;
  if (status === "LOCKED") return restricted("the channel is locked");
  if (settings.readOnly) return restricted("the channel is read-only");
  return ofStanding(settings, sender, now);
};

const ofStanding = (
  { minLevelToPost, minAccountAgeSeconds }: ChannelSettings,
  { level, createdAt }: ModerationContext["sender"],
  now: Date,
): DomainError | undefined => {
  if (level < minLevelToPost) return restricted(`players post here from level ${minLevelToPost}`);
  // A sandbox may have made the player at a later time than the one at which chat is.
  if (Math.max(0, now.getTime() - createdAt.getTime()) < minAccountAgeSeconds * 1_000)
    return restricted(`players post here ${minAccountAgeSeconds} s after they were made`);
  return undefined;
};

const ofLinks = ({ channel: { settings } }: ModerationContext, text: string): DomainError | undefined => {
  if (settings.links === "ALLOW") return undefined;
  const link =
    settings.links === "BLOCK" ? findLinks(text)[0] : findForeignLink(text, settings.allowedDomains);
  if (!link) return undefined;
  const what = link.domain ?? (link.host === "" ? "that address" : link.host);
  return invalid("content", `may not link to ${what}`, "LINK_NOT_ALLOWED");
};

/** Applies the word lists to a text: the strongest of the matching actions. Pure, as `moderate`. */
export const screenText = (
  filter: WordFilter,
  profanity: ChannelSettings["profanity"],
  text: string,
): Screening => {
  const { matches } = screenWords(filter, profanity, text);
  return { filter, profanity, text, verdict: verdictOf(matches, text) };
};

const verdictOf = (matches: readonly WordMatch[], text: string): Screening["verdict"] => {
  if (matches.some(({ action }) => action === "BLOCK"))
    return { error: invalid("content", "contains words that are not allowed here", "MESSAGE_BLOCKED") };
  const isHeld = matches.some(({ action }) => action === "HOLD");
  return {
    outcome: isHeld ? "HELD" : matches.length > 0 ? "MASKED" : "VISIBLE",
    content: mask(
      text,
      matches.filter(({ action }) => action === "MASK"),
    ),
    flags: flagsOf(matches),
  };
};

const flagsOf = (matches: readonly WordMatch[]): string[] => [
  ...new Set(matches.map(({ list }) => `word:${list}`)),
];

/** Screens a text, unless `ahead` was made of the same text by the same words. */
const ofWords = (
  { filter, channel, sanctions }: ModerationContext,
  text: string,
  ahead: Screening | undefined,
): Verdict => {
  const { profanity } = channel.settings;
  const isCurrent = ahead?.filter === filter && ahead.profanity === profanity && ahead.text === text;
  const { verdict } = isCurrent ? ahead : screenText(filter, profanity, text);
  if ("error" in verdict) return verdict;
  return { ...verdict, isShadowed: sanctions.some(({ kind }) => kind === "SHADOW_MUTE") };
};

/**
 * Moderates a text: sanctions, rules of the channel, links, words, in this order; the first refusal wins.
 * Texts of servers and console users are accepted unchanged. Pure, total for any string, and linear in its
 * length. Rates are the limiter's: see filters.ts.
 * @param ahead of a text that was screened before, used while it is current
 */
export const moderate = (context: ModerationContext, text: string, ahead?: Screening): Verdict => {
  const isPlayer = context.sender.kind === "PLAYER";
  const early = (isPlayer ? ofSanctions(context) : undefined) ?? ofChannel(context);
  if (early) return { error: early };
  if (!isPlayer) return { outcome: "VISIBLE", content: text, flags: [], isShadowed: false };
  const link = ofLinks(context, text);
  if (link) return { error: link };
  return ofWords(context, text, ahead);
};

/** A sanction as `sanctionsOf` reads it. */
export type SanctionRow = {
  playerId: string;
  id: string;
  kind: SanctionKind;
  channelId: string | null;
  reason: string;
  expiresAt: Date | string | null;
};

type Where = { projectId: string; channelId: string; now: Date };

/** SQL: whether the sanction `s` is in force. */
export const isInForce = (now: Date): RawBuilder<unknown> => sql`
  (s.revoked_at is null and (s.expires_at is null or s.expires_at > ${now.toISOString()}::timestamptz))`;

/**
 * Selects the sanctions in force for `players` (an array of ids) in a channel, including those of all
 * channels.
 */
export const sanctionsOf = (
  players: RawBuilder<unknown>,
  { projectId, channelId, now }: Where,
) => sql<SanctionRow>`
  select player_id as "playerId", id, kind, channel_id as "channelId", reason, expires_at as "expiresAt"
  from chat_sanctions s
  where project_id = ${projectId} and player_id = any(${players})
    and (channel_id is null or channel_id = ${channelId}) and ${isInForce(now)}
  order by id`;

/** By player; players without any are absent. */
export const sanctionsByPlayer = (rows: readonly SanctionRow[]): Map<string, ActiveSanction[]> =>
  Map.groupBy(
    rows.map(({ playerId, expiresAt, ...rest }) => ({
      playerId,
      ...rest,
      expiresAt: expiresAt === null ? null : new Date(expiresAt),
    })),
    ({ playerId }) => playerId,
  );

/** Returns the sanctions in force for players in a channel, by player, in one statement. */
export const findSanctions = async (
  { db, now }: Work,
  projectId: string,
  playerIds: readonly string[],
  channelId: string,
): Promise<Map<string, ActiveSanction[]>> => {
  const players = sql`${`{${playerIds.join(",")}}`}::uuid[]`;
  const { rows } = await sanctionsOf(players, { projectId, channelId, now }).execute(db);
  return sanctionsByPlayer(rows);
};
