import { CAUSES } from "../../causes.ts";
import { Amount } from "./amount.ts";
import { bundlePart, product, total } from "./part.ts";

export const xp = bundlePart({
  schema: Amount,
  times: (amount, times) => product(amount, times),
  sum: total,
  names: () => [],
  causes: () => CAUSES.xp,
});
