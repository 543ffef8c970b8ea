import { z } from "zod";
import { forbidden } from "../../kernel/errors.ts";
import type { Transact } from "../../kernel/work.ts";
import { findKnownProject, type KnownProject } from "./resolve.ts";

const ORIGINS_MAX = 50;
const ORIGIN_MAX = 300;

/** The way browsers write it in the header Origin. */
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
 * Keeps pages of foreign origins away from a project that names its own. Only browsers send `Origin`:
 * without one, and where the list is empty, all may.
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

/** As `checkOrigin`, of a project by its id. */
export const checkOriginOf = async (
  transact: Transact,
  projectId: string,
  origin: string | undefined,
): Promise<void> => {
  if (origin === undefined) return;
  const project = await findKnownProject(transact, projectId);
  if (project) checkOrigin(project, origin);
};
