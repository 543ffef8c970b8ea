import { z } from "zod";
import { EXTERNAL_ID_MAX } from "../../domain/kernel/limits.ts";
import { ignoredWarnings } from "../../domain/kernel/json.ts";
import { fitsBytes } from "../../domain/kernel/hostile-json.ts";
import { METADATA_MAX_BYTES } from "../../domain/players/profile.ts";
import { Zone } from "../../domain/evaluation/language/syntax.ts";
import { ShownPlayer } from "../../domain/progression/players/show.ts";
import { onPlayers } from "./bodies.ts";
export const Asset = z.enum(["XP", "CURRENCY", "LIVES"]);
/** A line of the ledger as the API shows it. */
export const LedgerEntryBody = z
  .object({
    id: z.uuid(),
    seq: z.int().meta({ description: "Counts the player's entries, from 1 and without a gap" }),
    asset: Asset,
    currencyKey: z.string().nullable(),
    amount: z.int().meta({ description: "Signed; for lives, refills by time have no entry" }),
    balanceAfter: z.int(),
    reason: z.string(),
    txId: z.uuid().nullable().meta({ description: "Shared by the entries of one transfer" }),
    cause: z.record(z.string(), z.unknown()),
    reverses: z.uuid().nullable().meta({ description: "The entry that this one takes back" }),
    hash: z.string().meta({ description: "SHA-256 of this entry with the hash of the one before it" }),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "LedgerEntry" });

export const Tag = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, "must be 1 to 64 of a-z 0-9 _ -");
export const ExternalUserId = z.string().min(1).max(EXTERNAL_ID_MAX);

const Attributes = z
  .record(
    z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/, "must be 1 to 64 of A-Z a-z 0-9 _ -"),
    z.unknown(),
  )
  .meta({
    description: "Merge patch: null removes an attribute. At most 100 keys, 8 KiB, depth 3; rules see them",
  });
const Metadata = z
  .record(z.string().max(255), z.unknown())
  .refine((value) => fitsBytes(value, METADATA_MAX_BYTES), "must be at most 16 KiB of JSON")
  .meta({ description: "Free-form, at most 16 KiB; rules do not see it" });

const Profile = z.object({
  displayName: z.string().min(1).max(100).nullish(),
  avatarUrl: z
    .url({ protocol: /^https$/, error: "must be an https address" })
    .max(2048)
    .nullish(),
  timezone: Zone.nullish(),
  locale: z
    .string()
    .regex(/^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/, "must be a language tag such as en or pt-BR")
    .max(35)
    .nullish(),
  country: z
    .string()
    .regex(/^[A-Z]{2}$/, "must be an ISO 3166 code such as SE")
    .nullish(),
  attributes: Attributes.optional(),
  metadata: Metadata.optional(),
});
export const NewPlayer = Profile.extend({
  externalUserId: ExternalUserId,
  tags: z.array(Tag).max(50).optional(),
});
export const PlayerPatch = Profile.extend({
  addTags: z.array(Tag).max(50).optional(),
  removeTags: z.array(Tag).max(50).optional(),
});

export const PlayerWarnings = z.array(z.string()).optional().meta({
  description: "Fields that no player has, which were ignored; and what a status means for the player",
});

/** The answer to a profile that was sent. */
export const ChangedPlayer = ShownPlayer.extend({ warnings: PlayerWarnings }).meta({ id: "ChangedPlayer" });

/** Returns the warnings of an answer: about fields that were ignored, and a status that is not ACTIVE. */
export const playerWarnings = (
  ignored: readonly string[],
  status: string = "ACTIVE",
): { warnings?: string[] } => {
  const inactive =
    `the player is ${status}${status === "SUSPENDED" ? ", as DELETE leaves them" : ""}: their events are REJECTED until ` +
    "POST /players/{playerId}/status makes them ACTIVE";
  const warnings = [...ignoredWarnings(ignored, "a player"), ...(status === "ACTIVE" ? [] : [inactive])];
  return warnings.length === 0 ? {} : { warnings };
};

export const { read: readsPlayers, write: writesPlayers } = onPlayers("Players");
