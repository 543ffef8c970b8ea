import { z } from "zod";
import { availableOf as availableIn, balanceNow } from "../../currencies/balance.ts";
import { currentLives } from "../../lives/lives.ts";
import type { Turn } from "../../progression/turn.ts";
import { compilePath, type Reader } from "./paths.ts";
import { isPath, Key, Scalar } from "./syntax.ts";

/** Looks a value up; undefined where there is none. */
export type Lookup = (turn: Turn) => unknown;

/** What can be read of a player, by the name rules use. Null fields are missing data. */
const PLAYER_FIELDS: Record<string, Lookup> = {
  xp: ({ player }) => player.xp,
  level: ({ player }) => player.level,
  lives: (turn) => currentLives(turn),
  status: ({ player }) => player.status,
  timezone: ({ player }) => player.timezone ?? undefined,
  locale: ({ player }) => player.locale ?? undefined,
  country: ({ player }) => player.country ?? undefined,
  tags: ({ player }) => player.tags,
  createdAt: ({ player }) => player.createdAt.toISOString(),
  lastSeenAt: ({ player }) => player.lastSeenAt?.toISOString(),
  externalUserId: ({ player }) => player.externalUserId,
};

const ATTRIBUTES = "attributes.";
const CURRENCIES = "currencies.";

/** The names of a player's values, for messages. */
export const PLAYER_VALUES = [...Object.keys(PLAYER_FIELDS), "currencies.{key} or attributes.{path}"].join(
  ", ",
);

/** Whether `field` names a value of a player: a field, `currencies.{key}` or `attributes.{path}`. */
export const isPlayerValue = (field: string): boolean => {
  if (field.startsWith(ATTRIBUTES)) return isPath(field.slice(ATTRIBUTES.length));
  if (field.startsWith(CURRENCIES)) return Key.safeParse(field.slice(CURRENCIES.length)).success;
  return Object.hasOwn(PLAYER_FIELDS, field);
};

/** The key of the currency that `field` names, if it names one. */
export const currencyOf = (field: string): string | undefined =>
  field.startsWith(CURRENCIES) ? field.slice(CURRENCIES.length) : undefined;

/** What the player can spend: the balance without what is held. Missing for an unknown currency. */
const availableOf = (turn: Turn, currencyKey: string): number | undefined => {
  if (!turn.project.currencies.has(currencyKey)) return undefined;
  return availableIn(balanceNow(turn, currencyKey)!);
};

/** Reads a value of a player by a name for which `isPlayerValue` holds. */
export const compilePlayerValue = (field: string): Lookup => {
  const currencyKey = currencyOf(field);
  if (currencyKey !== undefined) return (turn) => availableOf(turn, currencyKey);
  if (!field.startsWith(ATTRIBUTES)) return PLAYER_FIELDS[field]!;
  const read = compilePath(field.slice(ATTRIBUTES.length));
  return ({ player }) => read(player.attributes);
};

/** What only `$ref` can name. */
const REF_FIELDS: Record<string, Lookup> = {
  "event.type": ({ event }) => event.type,
  "event.timestamp": ({ event }) => new Date(event.at).toISOString(),
  "player.id": ({ player }) => player.id,
  "player.displayName": ({ player }) => player.displayName ?? undefined,
};

const PROPERTIES = "event.properties.";
const PLAYER = "player.";

const isReference = (text: string): boolean => {
  if (Object.hasOwn(REF_FIELDS, text)) return true;
  if (text.startsWith(PROPERTIES)) return isPath(text.slice(PROPERTIES.length));
  return text.startsWith(PLAYER) && isPlayerValue(text.slice(PLAYER.length));
};

/** A value looked up when the rule runs; `default` stands in where there is none. */
export const Reference = z.strictObject({
  $ref: z
    .string()
    .max(400)
    .refine(
      isReference,
      "must be event.type, event.timestamp, event.properties.…, player.…, player.currencies.… " +
        "or player.attributes.…",
    ),
  default: Scalar.optional(),
});
export type Reference = z.output<typeof Reference>;

export const isReferenceObject = (value: unknown): value is Reference =>
  value !== null && typeof value === "object" && "$ref" in value;

const readerOf = ($ref: string): Lookup => {
  if ($ref.startsWith(PROPERTIES)) {
    const read: Reader = compilePath($ref.slice(PROPERTIES.length));
    return ({ event }) => read(event.properties);
  }
  return Object.hasOwn(REF_FIELDS, $ref) ? REF_FIELDS[$ref]! : compilePlayerValue($ref.slice(PLAYER.length));
};

export const compileReference = ({ $ref, default: fallback }: Reference): Lookup => {
  const read = readerOf($ref);
  return fallback === undefined ? read : (turn) => read(turn) ?? fallback;
};
