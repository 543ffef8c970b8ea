import { z } from "zod";

/** The answers of what has no record to show. */
export const Accepted = z.object({ accepted: z.literal(true) });
export const Deleted = z.object({ deleted: z.literal(true) });
