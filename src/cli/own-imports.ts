import { registerHooks } from "node:module";

const OWN_MODULE = /^\.\.?\/.*\.ts$/;

/**
 * Resolves imports among own modules without a look at the disk. Node asks it anew for each of thousands of
 * imports, which is a fifth of what loading them computes; here an address says it all.
 */
export const resolveOwnImports = (): void => {
  const own = new URL("..", import.meta.url).href;
  registerHooks({
    resolve: (specifier, context, next) => {
      const { parentURL } = context;
      if (!parentURL?.startsWith(own) || !OWN_MODULE.test(specifier)) return next(specifier, context);
      return { url: new URL(specifier, parentURL).href, format: "module-typescript", shortCircuit: true };
    },
  });
};
