import type { Turn } from "../turn.ts";
import { type BundleGrant, isEmptyBundle } from "./bundle.ts";

/** Gives everything in a bundle. What cannot be given (an archived currency, say) leaves a warning. */
export const grantBundle = (turn: Turn, grant: BundleGrant): void => {
  if (!isEmptyBundle(grant.bundle)) turn.give(turn, grant);
};
