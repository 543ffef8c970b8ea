import type { Command } from "commander";

/** Adds `laurel openapi`, which prints the API's description. */
export const addOpenapiCommand = (program: Command): void => {
  program
    .command("openapi")
    .description("print the OpenAPI 3.0 document")
    .action(async () => {
      const { openApiDocument } = await import("../http/openapi.ts");
      const { routes } = await import("../http/routes.ts");
      console.log(JSON.stringify(openApiDocument(routes), null, 2));
    });
};
