import type { App } from "../app.ts";
import { admit } from "../domain/chat/access.ts";
import { type ChannelRef, showAdmitted } from "../domain/chat/channels.ts";
import { readHistory, readLastSeqs } from "../domain/chat/messages.ts";
import type { ChatActor, ChatChannel, ChatMessage } from "../domain/chat/views.ts";
import { notFound } from "../domain/errors.ts";
import type { Item } from "./chat-state.ts";
import { REPLAY_MAX, type StreamPage } from "./ordered-stream.ts";
import { transactIn } from "./sight.ts";

/** Messages that a client without `lastSeq` is shown. */
export const HISTORY_MAX = 50;

/** What a reader is shown on coming; `resumed`: `messages` are all after the `lastSeq` they gave. */
export type Shown = { channel: ChatChannel; messages: ChatMessage[]; lastSeq: number; resumed: boolean };

/**
 * The messages after `lastSeq`, or the newest ones, oldest first.
 * @throws DomainError NOT_FOUND, FORBIDDEN as `readChannel`
 */
export const readShown = (
  app: App,
  ref: ChannelRef,
  actor: ChatActor,
  lastSeq: number | undefined,
): Promise<Shown> =>
  transactIn(
    app,
    ref.projectId,
  )(async (work) => {
    // The channel first: messages committed in between are then extra, never missing.
    const { viewer, ...admission } = await admit(work, ref, actor);
    const channel = showAdmitted({ viewer, ...admission });
    const behind = lastSeq === undefined ? Infinity : channel.lastSeq - lastSeq;
    const resumed = behind >= 0 && behind <= REPLAY_MAX;
    const messages = resumed
      ? await readHistory(work, admission.channel, viewer, { after: lastSeq, limit: REPLAY_MAX })
      : (await readHistory(work, admission.channel, viewer, { limit: HISTORY_MAX })).toReversed();
    return { channel, messages, resumed, lastSeq: messages.at(-1)?.seq ?? channel.lastSeq };
  });

/** Who is nobody in particular sees of each message what all may see. */
const ANYBODY = { playerId: null, isModerator: false };

/** The channel's messages after a seq as all readers see them, to fill a gap of the stream. */
export const readItems = (app: App, ref: ChannelRef, afterSeq: number): Promise<StreamPage<Item>> =>
  transactIn(
    app,
    ref.projectId,
  )(async (work) => {
    const lastSeq = (await readLastSeqs(work, [ref])).get(ref.channelId);
    if (lastSeq === undefined) throw notFound("channel");
    const channel = { projectId: ref.projectId, id: ref.channelId };
    const rows = await readHistory(work, channel, ANYBODY, { after: afterSeq, limit: REPLAY_MAX + 1 });
    return { seq: lastSeq, messages: rows.map((message) => ({ seq: message.seq, message })) };
  });
