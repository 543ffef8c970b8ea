import { z } from "zod";
import { about, CAUSES } from "../../causes.ts";
import { Key } from "../../language/syntax.ts";
import { bundlePart } from "./part.ts";

/** Premium of an adventure: a player has it or not, so several are one. */
export const premium = bundlePart({
  schema: z.strictObject({ adventureKey: Key }),
  times: (value) => value,
  sum: (values) => values[0]!,
  names: ({ adventureKey: key }) => [{ kind: "adventure", key, at: "adventureKey" }],
  causes: ({ adventureKey }) => about(CAUSES.adventure, adventureKey),
});
