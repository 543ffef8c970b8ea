import type { Json } from "../../kernel/events/events.ts";

/** Maximum bytes of a body. */
export const BODY_MAX = 64 * 1024;

/** An event of the outbox. */
export type Happened = {
  id: string;
  projectId: string;
  type: string;
  playerId: string | null;
  data: Json;
  createdAt: Date;
};

/** Returns the exact text sent to webhooks; undefined for an event that is not for webhooks. */
export const webhookBody = ({ id, projectId, type, data, createdAt }: Happened): string | undefined => {
  const shown = shownData(type, data);
  if (shown === undefined) return undefined;
  const text = (content: Json): string =>
    JSON.stringify({ id, type, projectId, createdAt: createdAt.toISOString(), data: content });
  const body = text(shown);
  return Buffer.byteLength(body) <= BODY_MAX ? body : text(cut(shown, BODY_MAX - overhead(text)));
};

const overhead = (text: (content: Json) => string): number => Buffer.byteLength(text({}));

/** Events emitted by a rule contain their destination, which is removed for receivers. */
const shownData = (type: string, data: Json): Json | undefined => {
  if (!type.startsWith("custom.")) return data;
  const { channels, ...shown } = data;
  return Array.isArray(channels) && !channels.includes("webhook") ? undefined : shown;
};

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/**
 * Shortens the largest lists until the data fits, and sets `truncated: true`. If it is too large without any
 * list, the largest fields are removed.
 */
const cut = (data: Json, room: number): Json => {
  let left: Json = { ...data, truncated: true };
  while (bytesOf(left) > room) {
    const [name, value] = largest(left);
    if (Array.isArray(value) && value.length > 0)
      left = { ...left, [name]: value.slice(0, Math.floor(value.length / 2)) };
    else left = Object.fromEntries(Object.entries(left).filter(([other]) => other !== name));
  }
  return left;
};

const largest = (data: Json): [string, unknown] =>
  Object.entries(data).reduce((most, one) => (bytesOf(one[1]) > bytesOf(most[1]) ? one : most));
