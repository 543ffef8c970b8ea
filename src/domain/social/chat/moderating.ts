import { conflict, type DomainError, forbidden, notFound } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { isMember } from "./access.ts";
import type { Channel } from "./channel-row.ts";
import { filterOf, guessFilter } from "./moderation/filters.ts";
import {
  moderate,
  type ModerationContext,
  type Screening,
  screenText,
  type Verdict,
} from "./moderation/moderate.ts";
import { CONTENT_MAX } from "./settings.ts";
import type { ChatContext, ContextSender } from "./context.ts";
import { readContent } from "./text.ts";
import type { ChannelSettings, ChatActor } from "../../kernel/events/chat-views.ts";

/** Everything that texts of one channel are moderated by, read once for a group. */
export type ModerationScope = {
  now: Date;
  channel: Channel;
  sanctions: ReadonlyMap<string, ModerationContext["sanctions"]>;
  filter: ModerationContext["filter"];
};

/**
 * Uses what was read for the context; needs no statement.
 * @throws FilterUnready after a change of the project's word lists
 */
export const openModeration = async (
  work: Work,
  { channel, sanctions, listsVersion }: Pick<ChatContext, "channel" | "sanctions" | "listsVersion">,
): Promise<ModerationScope> => ({
  now: work.now,
  channel,
  sanctions,
  filter: await filterOf(work, channel.projectId, listsVersion),
});

/** The author; `sender` for a player. */
export type Author = { actor: ChatActor; sender: ContextSender | undefined };

const contextOf = (scope: ModerationScope, { actor, sender }: Author): ModerationContext => {
  const { now, channel, sanctions, filter } = scope;
  const readOnlyAt = channel.closedMs === null ? null : new Date(channel.closedMs);
  const isModerator = actor.kind === "ADMIN" || (actor.kind === "SERVER" && actor.isModerator);
  const common = { now, channel: { ...channel, readOnlyAt }, filter };
  if (!sender) {
    const nobody = { kind: actor.kind, role: "MEMBER", isModerator, level: 0, createdAt: now } as const;
    return { ...common, sender: nobody, sanctions: [] };
  }
  const { level, role, createdAt } = sender;
  return {
    ...common,
    sender: {
      kind: actor.kind,
      role: role ?? "MEMBER",
      isModerator,
      level,
      createdAt: new Date(createdAt),
    },
    sanctions: sanctions.get(sender.id) ?? [],
  };
};

/** @throws DomainError NOT_FOUND for a player outside the channel, CONFLICT PLAYER_INACTIVE */
export const checkAuthor = ({ channel, now }: ModerationScope, { actor, sender }: Author): void => {
  if (channel.status === "ARCHIVED") throw forbidden("CHANNEL_RESTRICTED", "the channel is archived");
  if (actor.kind !== "PLAYER") return;
  if (!sender) throw notFound("player");
  if (sender.status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${sender.status}`);
  const { kind, closedMs } = channel;
  if (!isMember({ kind, closedMs, ...sender }, now.getTime())) throw notFound("channel");
};

/** A verdict that accepts the text. */
export type Passed = Exclude<Verdict, { error: DomainError }>;

/**
 * Cleans a text and moderates it. Servers may use all of CONTENT_MAX. `ahead` is of `prepareText`.
 * @throws DomainError VALIDATION_ERROR, and the error of a refusing verdict
 */
export const passText = (
  scope: ModerationScope,
  author: Author,
  text: string,
  ahead?: Screening,
): Passed & { text: string } => {
  const isServer = author.actor.kind !== "PLAYER";
  const content = readContent(text, isServer ? CONTENT_MAX : scope.channel.settings.maxLength);
  const verdict = moderate(contextOf(scope, author), content, ahead);
  if ("error" in verdict) throw verdict.error;
  return { ...verdict, text: content };
};

/**
 * Performs part of `passText` before the transaction, so that its CPU is not spent while the channel is
 * locked. Returns undefined, and never throws, for an invalid text, which is refused when it is sent.
 */
export const prepareText = (
  projectId: string,
  { profanity, maxLength }: Pick<ChannelSettings, "profanity" | "maxLength">,
  text: string,
): Screening | undefined => {
  let content: string;
  try {
    content = readContent(text, maxLength);
  } catch {
    return undefined;
  }
  return screenText(guessFilter(projectId), profanity, content);
};
