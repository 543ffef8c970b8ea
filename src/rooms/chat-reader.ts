import type { App } from "../app.ts";
import type { ChannelRef } from "../domain/social/chat/channels.ts";
import { ANYBODY, readHistory, readLastSeqs } from "../domain/social/chat/messages.ts";
import { notFound } from "../domain/kernel/errors.ts";
import type { Item } from "./chat-state.ts";
import { REPLAY_MAX, type StreamPage } from "./ordered-stream.ts";
import { transactIn } from "./project-transact.ts";

/** Reads the channel's messages after a seq, as all readers see them, to fill a gap in the stream. */
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
