import { newId } from "../../kernel/ids.ts";
import type { InboxRow } from "../effects.ts";
import { playerOf, type Turn, write } from "../turn.ts";

export const TITLE_MAX = 200;
export const BODY_MAX = 4_000;
/** Default lifetime of a message, in ms: 90 days. */
const MESSAGE_KEPT_MS = 90 * 86_400_000;
/** Maximum lifetime of a message, in ms: a year. */
export const MESSAGE_MAX_MS = 366 * 86_400_000;

/** `type`: by which clients distinguish messages, such as `news`; `expiresMs`: null for 90 days from now. */
export type NewMessage = Omit<InboxRow, "id" | "projectId" | "playerId">;

/** Sends a message to the inbox of the turn's player: `inbox.message`. */
export const sendMessage = (turn: Turn, message: NewMessage): InboxRow => {
  const { id: playerId, projectId } = turn.player;
  const { type, title, body, data, rewardGrantId } = message;
  const expiresMs = message.expiresMs ?? turn.nowMs + MESSAGE_KEPT_MS;
  const row: InboxRow = { ...message, id: newId(), projectId, playerId, expiresMs };
  write(turn, "inbox", row);
  const sent = { id: row.id, type, title, body, data, rewardGrantId };
  turn.emit("inbox.message", { ...playerOf(turn), ...sent });
  return row;
};
