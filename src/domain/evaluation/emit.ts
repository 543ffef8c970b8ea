import { type Cause, type CustomData, customType, type Json } from "../kernel/events/events.ts";
import { BODY_MAX, sendMessage, TITLE_MAX } from "./inbox/send.ts";
import { outboxRow } from "../kernel/outbox.ts";
import { playerOf, type Turn, write } from "./turn.ts";

/** Writes an outbox row of the player: a line of the player's stream unless it `isSilent`. */
export const publish = (turn: Turn, type: string, data: unknown, { isSilent = false } = {}): void => {
  const { player, root } = turn;
  const options = {
    playerId: player.id,
    ...(isSilent ? {} : { playerSeq: ++player.seq }),
    ...(root.isTracked ? { eventId: root.id } : {}),
  };
  write(turn, "outbox", outboxRow(player.projectId, type, data, options));
};

/** Queues a derived event, if anything listens to its type. */
export const derive = ({ project, event, root }: Turn, type: string, properties: Json): void => {
  if (!project.hasListeners(type)) return;
  const via = root.acting ? [...(event.via ?? []), root.acting] : event.via;
  const derived = { id: root.id, type, at: event.at, properties, depth: event.depth + 1 };
  root.derived.push(via === undefined ? derived : { ...derived, via });
};

export type CustomEvent = {
  eventType: string;
  properties: Json;
  cause: Cause;
  /**
   * `rules`: triggers other rules; `webhook` and `realtime`: published as `custom.{eventType}`; `inbox`:
   * becomes a message to the player.
   */
  channels: readonly string[];
};

/** Emits an event of the integrator's own, for the action `emit_event`. */
export const emitCustom = (turn: Turn, custom: CustomEvent): void => {
  const { eventType, properties, cause, channels } = custom;
  const outward = channels.filter((channel) => channel === "webhook" || channel === "realtime");
  if (outward.length > 0) {
    const named = { ...playerOf(turn), eventType, properties, cause };
    const data: CustomData & { channels: readonly string[] } = { ...named, channels: outward };
    publish(turn, customType(eventType), data, { isSilent: !channels.includes("realtime") });
  }
  if (channels.includes("inbox")) writeMessage(turn, custom);
  if (channels.includes("rules")) derive(turn, eventType, properties);
};

const textOf = (value: unknown, max: number): string | null =>
  typeof value === "string" && value !== "" ? value.slice(0, max).toWellFormed() : null;

/** Writes a message to the player's inbox: `title` and `body` of the event, or else its type. */
const writeMessage = (turn: Turn, { eventType, properties }: CustomEvent): void => {
  sendMessage(turn, {
    type: eventType,
    title: textOf(properties["title"], TITLE_MAX) ?? eventType,
    body: textOf(properties["body"], BODY_MAX),
    data: properties,
    rewardGrantId: null,
    expiresMs: null,
  });
};
