// What the page's scripts are checked for besides their types. `make check` installs the plugin into
// .venv/javascript.

import { createRequire } from "node:module";

const require = createRequire(new URL(".venv/javascript/", import.meta.url));
const typescript = require("typescript-eslint");

export default [
  {
    files: ["src/segue/web/assets/*.js"],
    plugins: { "@typescript-eslint": typescript.plugin },
    languageOptions: {
      parser: typescript.parser,
      parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname },
    },
    linterOptions: { noInlineConfig: true },
    rules: {
      // Promises: none is forgotten, and none is taken for a value.
      "@typescript-eslint/await-thenable": "error",
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/only-throw-error": "error",
      "@typescript-eslint/prefer-promise-reject-errors": "error",
      "no-promise-executor-return": "error",
      // Types: nothing is exempt from them, and no check is without an effect.
      "@typescript-eslint/ban-ts-comment": "error",
      "@typescript-eslint/no-base-to-string": "error",
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-unnecessary-condition": "error",
      "@typescript-eslint/no-unnecessary-type-assertion": "error",
      "@typescript-eslint/no-unsafe-argument": "error",
      "@typescript-eslint/no-unsafe-assignment": "error",
      "@typescript-eslint/no-unsafe-call": "error",
      "@typescript-eslint/no-unsafe-member-access": "error",
      "@typescript-eslint/no-unsafe-return": "error",
      "@typescript-eslint/no-unused-vars": "error",
      "@typescript-eslint/require-array-sort-compare": "error",
      "@typescript-eslint/restrict-plus-operands": "error",
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      eqeqeq: "error",
      // Plain code.
      "@typescript-eslint/no-shadow": "error",
      "@typescript-eslint/no-unused-expressions": "error",
      "array-callback-return": ["error", { checkForEach: true }],
      complexity: ["error", { max: 14, variant: "modified" }],
      "max-depth": ["error", 3],
      "max-params": ["error", 5],
      "no-constant-binary-expression": "error",
      "no-else-return": "error",
      "no-implicit-coercion": "error",
      "no-lonely-if": "error",
      "no-param-reassign": "error",
      "no-self-compare": "error",
      "no-template-curly-in-string": "error",
      "no-unneeded-ternary": "error",
      "no-useless-return": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "one-var": ["error", "never"],
      "prefer-const": "error",
      "prefer-template": "error",
      // The security policy of the page.
      "@typescript-eslint/no-implied-eval": "error",
      "no-eval": "error",
      "no-new-func": "error",
      "no-script-url": "error",
      // Left over.
      "no-alert": "error",
      "no-console": "error",
      "no-debugger": "error",
    },
  },
];
