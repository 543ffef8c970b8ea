import { z } from "zod";
import { CAUSES } from "../../causes.ts";
import { bundlePart, product, total } from "./part.ts";

export const lives = bundlePart({
  schema: z.union([z.int().min(1).max(1_000_000), z.literal("FULL")]),
  times: (amount, times) => (amount === "FULL" ? amount : product(amount, times)),
  sum: (amounts) => (amounts.includes("FULL") ? "FULL" : total(amounts.filter((one) => one !== "FULL"))),
  names: () => [],
  causes: () => CAUSES.lives,
});
