import type { Turn } from "../turn.ts";
import { type BundleGrant, isEmptyBundle } from "./bundle.ts";

/** Grants everything in a bundle. Parts that cannot be granted (an archived currency, say) add a warning. */
export const grantBundle = (turn: Turn, grant: BundleGrant): void => {
  if (!isEmptyBundle(grant.bundle)) turn.give(turn, grant);
};
