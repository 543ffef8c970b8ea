import { hash } from "node:crypto";

/** The fields of a ledger entry that are protected against changes. */
export type Chained = {
  key: string;
  asset: "XP" | "CURRENCY" | "LIVES";
  currencyKey: string | null;
  amount: number;
  balanceAfter: number;
};

/**
 * Returns the hash of a player's next ledger entry: SHA-256, hexadecimal, over the previous entry's hash
 * (empty for the first) and the entry, joined by line feeds. It includes no personal data, so that the chain
 * stays valid when a player is erased.
 */
export const chainHash = (
  previous: string | null,
  { key, asset, currencyKey, amount, balanceAfter }: Chained,
): string =>
  hash("sha256", [previous ?? "", key, asset, currencyKey ?? "", amount, balanceAfter].join("\n"), "hex");
