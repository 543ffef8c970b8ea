import { z } from "zod";
import { ADMINS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { listEntries, verifyLedger } from "../../domain/economy/ledger/entries.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { group } from "../route.ts";
import { AfterNumber, cursorBody, Span } from "./list-bodies.ts";

const Asset = z.enum(["XP", "CURRENCY", "LIVES"]);

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

const Verdict = z.object({
  valid: z.boolean(),
  entries: z.int(),
  headHash: z.string().nullable().meta({ description: "Hash of the newest entry; null without entries" }),
  firstInvalidSeq: z.int().optional(),
});

const common = group({ tag: "Ledger", project: "caller" });

export const ledgerRoutes = [
  common.get("/players/{playerId}/ledger", "listLedger", {
    access: { scope: "players:read", roles: EVERY_ROLE },
    summary: "List a player's ledger, newest first",
    description:
      "Every change of XP, currencies and lives. Entries are never changed: a mistake is corrected by " +
      "another entry.",
    query: Span.extend({
      ...AfterNumber.shape,
      asset: Asset.optional(),
      currencyKey: Key.optional(),
    }),
    response: cursorBody(LedgerEntryBody),
    run: async (work, { projectId, params, query }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      const { entries, nextCursor } = await listEntries(work, player, query);
      return { data: entries, pagination: { limit: query.limit, nextCursor } };
    },
  }),
  common.get("/players/{playerId}/ledger/verify", "verifyLedger", {
    access: { scope: "players:read", roles: ADMINS },
    summary: "Verify a player's ledger",
    description:
      "Works out every hash and balance anew. `firstInvalidSeq` is the first entry that was tampered with " +
      "or is missing.",
    response: Verdict,
    outside: async (app, { projectId, params }) => {
      const player = await app.transact((work) => getPlayer(work, projectId, params.playerId));
      return verifyLedger(app.transact, player, app.limits.pause);
    },
  }),
];
