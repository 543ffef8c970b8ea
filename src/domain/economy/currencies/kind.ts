import { definitionKind } from "../definitions/definitions.ts";
import { Currency, currencyShape } from "../../evaluation/currencies/currency.ts";

export const currencyKind = definitionKind<Currency>({
  kind: "currency",
  example: { key: "coins", name: "Coins", maxBalance: 1000000 },
  plural: "currencies",
  tag: "Currencies",
  schema: Currency,
  shape: currencyShape,
  max: 20,
});
