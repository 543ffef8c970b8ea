import { randomUUID } from "node:crypto";
import { must } from "../http/client.ts";
import type { Players } from "./players.ts";

const OPEN = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };

/** The person to be written of; `secret` gives a text that names them. */
export type Chatting = { id: string; mark: string; secret(what: string): string };

/** Leaves texts of a person wherever chat keeps any: messages, former ones, reports, sanctions, appeals. */
export const chatAs = async (players: Players, { id, mark, secret }: Chatting): Promise<void> => {
  const other = must(await players.post("/players", { externalUserId: randomUUID() }), 201).id;
  const channel = { key: `c-${randomUUID()}`, settings: OPEN };
  const messages = `/chat/channels/${must(await players.post("/chat/channels", channel), 201).id}/messages`;
  const say = async (playerId: string, content: string): Promise<number> =>
    must(await players.post(messages, { playerId, content }), 201).seq;
  const own = await say(id, `${secret("said")} shit`);
  must(await players.patch(`${messages}/${own}`, { playerId: id, content: secret("edited") }), 200);
  const others = await say(other, "hello");
  const report = { playerId: id, reason: "OTHER", note: secret("note") };
  must(await players.post(`${messages}/${others}/reports`, report), 201);
  // Of another, about the person: it is not shown to them, and goes when they are erased.
  const about = { playerId: other, reason: "OTHER", note: `about-${mark}` };
  must(await players.post(`${messages}/${own}/reports`, about), 201);
  const sanction = { playerId: id, kind: "MUTE", reason: secret("sanction"), durationSeconds: 60 };
  const made = must(await players.post("/chat/sanctions", sanction), 201);
  const appeal = { playerId: id, text: secret("appeal") };
  must(await players.post(`/chat/sanctions/${made.id}/appeal`, appeal), 200);
  must(await players.delete(`/chat/sanctions/${made.id}`), 200);
};
