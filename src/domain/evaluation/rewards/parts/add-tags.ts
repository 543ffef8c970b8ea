import { z } from "zod";
import { CAUSES } from "../../causes.ts";
import { Key } from "../../language/syntax.ts";
import { bundlePart } from "./part.ts";

export const addTags = bundlePart({
  schema: z.array(Key).max(20),
  // A tag cannot be added more than once.
  times: (tags) => tags,
  sum: (lists) => lists.flat(),
  names: () => [],
  causes: () => CAUSES.profile,
});
