import { z } from "zod";
import type { Work } from "../../domain/kernel/work.ts";
import { BALANCE_MAX } from "../../domain/evaluation/currencies/adjust.ts";
import {
  type BalanceChange,
  balancesOf,
  captureHold,
  changeBalance,
  HOLD_SECONDS_MAX,
  Balance,
  Hold,
  holdCurrency,
  listBalances,
  releaseHold,
} from "../../domain/economy/currencies/holds.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { readPlayer } from "../../domain/progression/players/show.ts";
import { LedgerEntryBody } from "./player-bodies.ts";
import { causeOf, ofPathPlayer, onPlayers } from "./bodies.ts";

const Amount = z.int().min(1).max(BALANCE_MAX).meta({ description: "In the smallest unit", example: 5 });
const Reason = z.string().min(1).max(255);
const Reference = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .meta({ description: "An order's number, say: serves a player once, whatever for" });
const Changed = z.object({ balance: Balance, ledgerEntry: LedgerEntryBody });

const { read, write: writing } = onPlayers("Balances");
const write = writing.with({ sharing: ofPathPlayer });

const change = async (
  work: Work,
  { projectId, params }: { projectId: string; params: { playerId: string; currencyKey: string } },
  given: Omit<BalanceChange, "currencyKey">,
) => {
  const { playerId, currencyKey } = params;
  if (given.expiresAt && given.expiresAt <= work.now) throw invalid("expiresAt", "must be in the future");
  return changeBalance(work, { projectId, id: playerId }, { ...given, currencyKey });
};

export const balanceRoutes = [
  read.get("/players/{playerId}/balances", "listBalances", {
    summary: "List a player's balances",
    description: "Of all currencies of the project, and of archived ones that the player has had.",
    response: z.object({ data: z.array(Balance) }),
    outside: async (app, { projectId, params: { playerId } }) => {
      const asked = { projectId, ref: playerId, now: app.clock(), lots: "EACH" as const };
      const found = await readPlayer(app.read, asked);
      if (found)
        return {
          data: balancesOf({ player: found.state, project: found.plan, nowMs: asked.now.getTime() }),
        };
      return app.transact(async (work) => ({
        data: await listBalances(work, await getPlayer(work, projectId, playerId)),
      }));
    },
  }),
  write.post("/players/{playerId}/balances/{currencyKey}/grant", "grantCurrency", {
    summary: "Grant currency to a player",
    description:
      "To give coins, gems, or any other currency. Beyond maxBalance it is cut to what fits " +
      "(ledgerEntry.amount) or refused, as the currency says; 409 BALANCE_LIMIT when nothing fits.",
    body: z.object({
      amount: Amount,
      reason: Reason.default("grant"),
      expiresAt: IsoTime.refine(
        (text) => Date.parse(text) < Date.UTC(9999, 0),
        "must be before the year 9999",
      )
        .optional()
        .meta({ description: "Default: as the currency says" }),
      reference: Reference,
    }),
    example: { amount: 100, reason: "Daily gift", reference: "gift-2026-01-31-user-1" },
    status: 201,
    response: Changed,
    run: (work, { projectId, params, caller, body: { expiresAt, ...body } }) =>
      change(
        work,
        { projectId, params },
        {
          ...body,
          ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt) }),
          cause: causeOf(caller),
        },
      ),
  }),
  write.post("/players/{playerId}/balances/{currencyKey}/spend", "spendCurrency", {
    summary: "Spend a player's currency",
    description:
      "To take coins, gems, or any other currency: all of the amount or, with 409 INSUFFICIENT_FUNDS, " +
      "nothing. What is held cannot be spent.",
    body: z.object({ amount: Amount, reason: Reason.default("spend"), reference: Reference }),
    example: { amount: 30, reason: "Bought a hint", reference: "hint-4711" },
    status: 201,
    response: Changed,
    run: (work, { projectId, params, caller, body }) =>
      change(work, { projectId, params }, { ...body, amount: -body.amount, cause: causeOf(caller) }),
  }),
  write.post("/players/{playerId}/balances/{currencyKey}/holds", "holdCurrency", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: false }),
    summary: "Hold a player's currency",
    description:
      "Sets an amount aside for a purchase: capture it to spend it, release it to free it. " +
      "It frees itself when it expires.",
    body: z.object({
      amount: Amount,
      expiresInSeconds: z.int().min(1).max(HOLD_SECONDS_MAX),
      reference: Reference,
    }),
    example: { amount: 30, expiresInSeconds: 600, reference: "auction-12" },
    status: 201,
    response: Hold,
    run: async (work, { projectId, params: { playerId, currencyKey }, body }) =>
      holdCurrency(work, { projectId, id: playerId }, { ...body, currencyKey }),
  }),
  write.post("/players/{playerId}/holds/{holdId}/capture", "captureHold", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: false }),
    summary: "Capture a hold",
    description: "All of it, or `amount`; the rest is free again.",
    body: z.object({ amount: Amount.optional() }),
    example: { amount: 25 },
    response: Hold,
    run: async (work, { projectId, params: { playerId, holdId }, body, caller }) =>
      captureHold(
        work,
        { projectId, id: playerId },
        {
          holdId,
          amount: body.amount,
          cause: causeOf(caller),
        },
      ),
  }),
  write.post("/players/{playerId}/holds/{holdId}/release", "releaseHold", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: false }),
    summary: "Release a hold",
    response: Hold,
    run: async (work, { projectId, params: { playerId, holdId } }) =>
      releaseHold(work, { projectId, id: playerId }, holdId),
  }),
];
