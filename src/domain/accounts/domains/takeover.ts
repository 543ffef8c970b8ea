import type { Transact, Work } from "../../kernel/work.ts";
import type { DnsRecords } from "./dns.ts";
import { type Ingress, lookAtDomain } from "./look.ts";
import { type DomainWithCertificate, lockDomain } from "./row.ts";
import { HELD, type Seen } from "./states.ts";
import {
  applySeen,
  entitlementOf,
  holderOf,
  loseName,
  mayBegin,
  type TransitionParts,
} from "./transition.ts";

/** What looks at the records of domains. */
export type CheckParts = TransitionParts & { transact: Transact; dns: DnsRecords; ingress: Ingress };

/**
 * Records of a holder are missing by two looks so far apart, in ms, that no resolver answers both from one
 * cached answer: one that lies takes no name.
 */
const CONFIRMED_MS = 3_600_000;

const isGone = ({ txt, routing }: Seen): boolean =>
  txt !== "UNKNOWN" && routing !== "UNKNOWN" && (txt === "MISSING" || routing === "MISSING");

/**
 * Has the holder of a name looked at where DNS proves it another tenant's: the holder gives it up if its own
 * records are missing, now and by a look before, and the other one may have it. While both are proved, as by
 * addresses and two TXT records, it stays where it is. Not to be called in a transaction.
 */
export const lookAtHolder = async (
  parts: CheckParts,
  claim: DomainWithCertificate,
  seen: Seen,
): Promise<void> => {
  if (!mayBegin(claim, seen)) return;
  const holder = await parts.transact(async (work) => {
    const id = await holderOf(work, claim);
    return id === undefined ? undefined : lockDomain(work, id);
  });
  if (!holder) return;
  const seenOfHolder = await lookAtDomain(parts.dns, holder, parts.ingress);
  await parts.transact((work) => settle(work, parts, { claim, id: holder.id, seen: seenOfHolder }));
};

type Settled = { claim: DomainWithCertificate; id: string; seen: Seen };

const settle = async (work: Work, parts: CheckParts, { claim, id, seen }: Settled): Promise<void> => {
  const holder = await lockDomain(work, id);
  if (!holder || !HELD.has(holder.status)) return;
  const failedBefore = holder.failingSince?.getTime() ?? Infinity;
  const isConfirmed = isGone(seen) && work.serverNow.getTime() - failedBefore >= CONFIRMED_MS;
  if (isConfirmed && (await entitlementOf(work, claim)) === "ENTITLED")
    return loseName(work, parts, holder, seen);
  await applySeen(work, parts, { id, seen });
};
