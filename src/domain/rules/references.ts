import { z } from "zod";
import type { PlayerState, Turn } from "../progression/turn.ts";
import { compilePath, type Reader } from "./paths.ts";
import { isPath, Scalar } from "./syntax.ts";

/** What can be read of a player, by the name rules use. Null fields are missing data. */
export const PLAYER_FIELDS = {
  xp: (player) => player.xp,
  level: (player) => player.level,
  status: (player) => player.status,
  timezone: (player) => player.timezone ?? undefined,
  locale: (player) => player.locale ?? undefined,
  country: (player) => player.country ?? undefined,
  tags: (player) => player.tags,
  createdAt: (player) => player.createdAt.toISOString(),
  lastSeenAt: (player) => player.lastSeenAt?.toISOString(),
  externalUserId: (player) => player.externalUserId,
} satisfies Record<string, (player: PlayerState) => unknown>;
export type PlayerField = keyof typeof PLAYER_FIELDS;

/** What only `$ref` can name. */
const REF_FIELDS: Record<string, (turn: Turn) => unknown> = {
  "event.type": ({ event }) => event.type,
  "event.timestamp": ({ event }) => new Date(event.at).toISOString(),
  "player.id": ({ player }) => player.id,
  "player.displayName": ({ player }) => player.displayName ?? undefined,
};
for (const [name, read] of Object.entries(PLAYER_FIELDS))
  REF_FIELDS[`player.${name}`] = ({ player }) => read(player);

const PROPERTIES = "event.properties.";
const ATTRIBUTES = "player.attributes.";

const isReference = (text: string): boolean =>
  Object.hasOwn(REF_FIELDS, text) ||
  (text.startsWith(PROPERTIES) && isPath(text.slice(PROPERTIES.length))) ||
  (text.startsWith(ATTRIBUTES) && isPath(text.slice(ATTRIBUTES.length)));

/** A value looked up when the rule runs; `default` stands in where there is none. */
export const Reference = z.strictObject({
  $ref: z
    .string()
    .max(400)
    .refine(
      isReference,
      "must be event.type, event.timestamp, event.properties.…, player.… or player.attributes.…",
    ),
  default: Scalar.optional(),
});
export type Reference = z.output<typeof Reference>;

export const isReferenceObject = (value: unknown): value is Reference =>
  value !== null && typeof value === "object" && "$ref" in value;

const readerOf = ($ref: string): ((turn: Turn) => unknown) => {
  if ($ref.startsWith(PROPERTIES)) {
    const read: Reader = compilePath($ref.slice(PROPERTIES.length));
    return ({ event }) => read(event.properties);
  }
  if ($ref.startsWith(ATTRIBUTES)) {
    const read: Reader = compilePath($ref.slice(ATTRIBUTES.length));
    return ({ player }) => read(player.attributes);
  }
  return REF_FIELDS[$ref]!;
};

export const compileReference = ({ $ref, default: fallback }: Reference): ((turn: Turn) => unknown) => {
  const read = readerOf($ref);
  return fallback === undefined ? read : (turn) => read(turn) ?? fallback;
};
