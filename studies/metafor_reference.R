# Write random meta-analyses with the results of the R package metafor, for tests/test_meta_analysis.py.
#
#     Rscript studies/metafor_reference.R tests/references/impact_tbi.csv tests/references/metafor.json
#
# The first file has estimates per study, which tests/impact_studies.py writes. They follow the random problems.
# Tolerances of the Fisher scoring are tightened, so that its results have more digits than the test compares.
suppressPackageStartupMessages(library(metafor))

numbers <- function(x) paste0("[", paste(formatC(x, digits = 17, format = "g"), collapse = ", "), "]")

number <- function(x) formatC(x, digits = 17, format = "g")

reference <- function(yi, sei, level) {
  fit <- rma(yi, sei = sei, method = "REML", test = "knha", level = level,
             control = list(threshold = 1e-14, maxiter = 100000, stepadj = 0.5))
  new <- predict(fit)
  paste0(
    "{\"estimates\": ", numbers(yi), ", \"standard_errors\": ", numbers(sei), ", \"level\": ", level,
    ", \"estimate\": ", number(fit$beta[1]), ", \"se\": ", number(fit$se), ", \"tau2\": ", number(fit$tau2),
    ", \"i2\": ", number(fit$I2), ", \"q\": ", number(fit$QE), ", \"q_p_value\": ", number(fit$QEp),
    ", \"interval\": ", numbers(c(fit$ci.lb, fit$ci.ub)),
    ", \"prediction_interval\": ", numbers(c(new$pi.lb, new$pi.ub)), "}"
  )
}

set.seed(29)
problems <- character()
for (i in 1:80) {
  k <- sample(c(2, 3, 4, 5, 8, 15, 40), 1)
  tau <- sample(c(0, 0.05, 0.2, 0.5, 1.5), 1)
  sei <- exp(rnorm(k, log(0.2), sample(c(0.1, 0.5, 1), 1)))
  yi <- rnorm(k, rnorm(1, 0, 2), sqrt(tau^2 + sei^2))
  problems <- c(problems, reference(yi, sei, sample(c(95, 95, 90), 1)))
}

arguments <- commandArgs(trailingOnly = TRUE)
studies <- read.csv(arguments[1])
for (measure in c("auc", "calibration_in_the_large", "calibration_slope")) {
  problems <- c(problems, reference(studies[[measure]], studies[[paste0(measure, "_se")]], 95))
}

writeLines(paste0("{\"metafor\": \"", packageVersion("metafor"), "\", \"problems\": [\n",
                  paste(problems, collapse = ",\n"), "\n]}"), arguments[2])
