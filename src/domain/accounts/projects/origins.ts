import { z } from "zod";
import { forbidden } from "../../kernel/errors.ts";
import type { Transact } from "../../kernel/work.ts";
import { findKnownProject, type KnownProject } from "./resolve.ts";

const ORIGINS_MAX = 50;
const ORIGIN_MAX = 300;

/** Returns whether a text is in the format of the Origin header of browsers. */
const isOrigin = (text: string): boolean =>
  /^https?:[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;

/** `allowedOrigins` of a project; each once, in the order given. */
export const AllowedOrigins = z
  .array(
    z
      .string()
      .max(ORIGIN_MAX)
      .refine(isOrigin, "must be an origin such as https://game.example.com, no path"),
  )
  .max(ORIGINS_MAX)
  .transform((origins) => [...new Set(origins)]);

/**
 * Rejects pages of other origins if a project restricts them. Only browsers send `Origin`: requests without
 * one, and all requests where the list is empty, are allowed.
 *
 * @throws FORBIDDEN ORIGIN_NOT_ALLOWED
 */
export const checkOrigin = (
  { allowedOrigins }: Pick<KnownProject, "allowedOrigins">,
  origin: string | undefined,
): void => {
  if (origin === undefined || allowedOrigins.length === 0) return;
  if (allowedOrigins.includes(origin)) return;
  throw forbidden(
    "ORIGIN_NOT_ALLOWED",
    "Pages of this origin may not use the project; an OWNER or ADMIN can add it to its allowedOrigins",
  );
};

/** As `checkOrigin`, for a project by id. */
export const checkOriginOf = async (
  transact: Transact,
  projectId: string,
  origin: string | undefined,
): Promise<void> => {
  if (origin === undefined) return;
  const project = await findKnownProject(transact, projectId);
  if (project) checkOrigin(project, origin);
};
