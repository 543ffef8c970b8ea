import { hash } from "node:crypto";

/** What a line of the ledger says that must never change. */
export type Chained = {
  key: string;
  asset: "XP" | "CURRENCY" | "LIVES";
  currencyKey: string | null;
  amount: number;
  balanceAfter: number;
};

/**
 * The hash of a player's next ledger line: SHA-256, hexadecimal, over the previous line's hash (empty for the
 * first) and the line, joined by line feeds. No personal data goes in, so that a player can be erased and the
 * chain still holds.
 */
export const chainHash = (
  previous: string | null,
  { key, asset, currencyKey, amount, balanceAfter }: Chained,
): string =>
  hash("sha256", [previous ?? "", key, asset, currencyKey ?? "", amount, balanceAfter].join("\n"), "hex");
