// Which run this is: `npm test`, where one of several doubles stands for the others, or `npm run test:full`, where all run.

/** Whether all cases run, however long they take. */
export const FULL_RUN = process.env["ROCMFORGE_TEST_FULL"] === "1";
